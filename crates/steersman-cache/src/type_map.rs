//! Machine: the types that one informer is looked at as; the only `Any` downcast.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// What there is of some types: each read looks it up.
pub(crate) type ByType<T> = HashMap<TypeId, T, BuildHasherDefault<AsItIs>>;

/// A `TypeId` is a hash already, which nobody outside the program chooses.
#[derive(Default)]
pub(crate) struct AsItIs(u64);

/// Values of any types, one of each.
#[derive(Default)]
pub(crate) struct Types {
    values: Vec<Value>,
}

struct Value {
    of: TypeId,
    value: Box<dyn Any + Send + Sync>,
    /// Whether it stays, however seldom it is used.
    meant: AtomicBool,
    /// Whether it was used since the last sweep.
    used: AtomicBool,
}

impl Types {
    /// The value of this type, if it is there; used now, and kept for good where it is `meant`.
    pub(crate) fn get<T: Any>(&self, meant: bool) -> Option<&T> {
        let of = TypeId::of::<T>();
        let value = self.values.iter().find(|value| value.of == of)?;
        // Most reads find both noted: other threads keep what they know of it then.
        for (noted, now) in [(&value.used, true), (&value.meant, meant)] {
            if now && !noted.load(Ordering::Relaxed) {
                noted.store(true, Ordering::Relaxed);
            }
        }
        value.value.downcast_ref()
    }

    /// Takes a value, unless there is one of its type.
    pub(crate) fn put<T: Any + Send + Sync>(&mut self, value: T, meant: bool) {
        if self.get::<T>(meant).is_none() {
            self.values.push(Value {
                of: TypeId::of::<T>(),
                value: Box::new(value),
                meant: AtomicBool::new(meant),
                used: AtomicBool::new(true),
            });
        }
    }

    /// Drops what nobody meant to keep and nobody has used since the last sweep.
    pub(crate) fn sweep(&mut self) {
        self.values.retain(|value| {
            let used = value.used.swap(false, Ordering::Relaxed);
            used || value.meant.load(Ordering::Relaxed)
        });
    }
}

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    fn finish(&self) -> u64 {
        self.0
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
        types.put(1_u8, true);
        types.put("a", true);
        types.put(2_u8, true);
        assert_eq!(types.get::<u8>(false), Some(&1));
        assert_eq!(types.get::<&str>(false), Some(&"a"));
        assert_eq!(types.get::<u16>(false), None);
    }

    #[test]
    fn what_is_used_between_two_sweeps_stays_and_what_is_meant_always_does() {
        let mut types = Types::default();
        types.put(1_u8, true);
        types.put(1_u16, false);
        types.put(1_u32, false);
        types.put(1_u64, false);
        types.sweep();
        types.get::<u16>(false).unwrap();
        types.get::<u32>(true).unwrap();
        types.sweep();
        assert!(types.get::<u64>(false).is_none());
        types.sweep();
        types.sweep();
        assert!(types.get::<u8>(false).is_some() && types.get::<u32>(false).is_some());
        assert!(types.get::<u16>(false).is_none());
    }
}
