//! Machine: the types that one informer is looked at as; the only `Any` downcast.

use std::any::{Any, TypeId};
use std::fmt;

/// Values of any types, one of each.
#[derive(Default)]
pub(crate) struct Types {
    values: Vec<(TypeId, Box<dyn Any + Send + Sync>)>,
}

impl Types {
    /// The value of this type, if it is there.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let of = TypeId::of::<T>();
        let (_, value) = self.values.iter().find(|(known, _)| *known == of)?;
        value.downcast_ref()
    }

    /// Takes a value, unless there is one of its type.
    pub(crate) fn put<T: Any + Send + Sync>(&mut self, value: T) {
        if self.get::<T>().is_none() {
            self.values.push((TypeId::of::<T>(), Box::new(value)));
        }
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Types")
            .field("types", &self.values.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_finds_its_own() {
        let mut types = Types::default();
        types.put(1_u8);
        types.put("a");
        types.put(2_u8);
        assert_eq!(types.get::<u8>(), Some(&1));
        assert_eq!(types.get::<&str>(), Some(&"a"));
        assert_eq!(types.get::<u16>(), None);
    }
}
