//! Machine: forgets the Rust type of an informer and finds it again; the only `Any` downcast.

use std::any::{Any, type_name};
use std::fmt;

/// A value whose type is known to whoever asks for it by name.
pub(crate) struct Erased {
    held: &'static str,
    value: Box<dyn Any + Send + Sync>,
}

/// The value is of another type than the one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherType {
    /// The name given for what is held.
    pub(crate) held: &'static str,
}

impl Erased {
    /// Holds `value`, remembering `K` as the name to show.
    pub(crate) fn new<K, T: Any + Send + Sync>(value: T) -> Self {
        Self {
            held: type_name::<K>(),
            value: Box::new(value),
        }
    }

    /// The value, if it is a `T`.
    pub(crate) fn get<T: Any>(&self) -> Result<&T, OtherType> {
        self.value
            .downcast_ref()
            .ok_or(OtherType { held: self.held })
    }
}

impl fmt::Debug for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Erased").field(&self.held).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_type_that_was_put_in_comes_out() {
        let erased = Erased::new::<u8, _>(vec![1_u8]);
        assert_eq!(erased.get::<Vec<u8>>(), Ok(&vec![1]));
        let other = erased.get::<Vec<u16>>().unwrap_err();
        assert_eq!(other.held, "u8");
    }
}
