//! Machine: a map from Rust types to the typed handles of one informer, with the only `Any` downcast.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};

/// A map from a Rust type to a `T`. The hasher is trivial, because every read looks up a type.
pub(crate) type ByType<T> = HashMap<TypeId, T, BuildHasherDefault<TypeIdHasher>>;

/// A hasher that returns a `TypeId` unchanged, because a `TypeId` is a hash that no input controls.
#[derive(Default)]
pub(crate) struct TypeIdHasher(u64);

#[derive(Default, derive_more::Debug)]
#[debug("TypeMap {{ types: {} }}", values.len())]
pub(crate) struct TypeMap {
    values: Vec<TypeValue>,
}

struct TypeValue {
    of: TypeId,
    value: Box<dyn Any + Send + Sync>,
    /// Whether `sweep` keeps the value even if it is not used.
    permanent: AtomicBool,
    /// Whether the value was used since the last call of `sweep`.
    used: AtomicBool,
}

impl TypeMap {
    /// Returns the value of type `T`, if present, and marks it as used, so that the next [`sweep`](Self::sweep) keeps
    /// it. If `permanent` is set, every later sweep keeps it.
    pub(crate) fn get<T: Any>(&self, permanent: bool) -> Option<&T> {
        let of = TypeId::of::<T>();
        let value = self.values.iter().find(|value| value.of == of)?;
        // A flag is stored only if it changes, so that concurrent readers keep the cache line shared.
        for (noted, now) in [(&value.used, true), (&value.permanent, permanent)] {
            if now && !noted.load(Ordering::Relaxed) {
                noted.store(true, Ordering::Relaxed);
            }
        }
        value.value.downcast_ref()
    }

    pub(crate) fn put<T: Any + Send + Sync>(&mut self, value: T, permanent: bool) {
        if self.get::<T>(permanent).is_none() {
            self.values.push(TypeValue {
                of: TypeId::of::<T>(),
                value: Box::new(value),
                permanent: AtomicBool::new(permanent),
                used: AtomicBool::new(true),
            });
        }
    }

    /// Drops values that are neither permanent nor used since the last sweep.
    pub(crate) fn sweep(&mut self) {
        self.values.retain(|value| {
            let used = value.used.swap(false, Ordering::Relaxed);
            used || value.permanent.load(Ordering::Relaxed)
        });
    }
}

impl Hasher for TypeIdHasher {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lookup_finds_the_value_of_its_type() {
        let mut types = TypeMap::default();
        types.put(1_u8, true);
        types.put("a", true);
        types.put(2_u8, true);
        assert_eq!(types.get::<u8>(false), Some(&1));
        assert_eq!(types.get::<&str>(false), Some(&"a"));
        assert_eq!(types.get::<u16>(false), None);
    }

    #[test]
    fn a_sweep_drops_values_that_are_neither_used_nor_permanent() {
        let mut types = TypeMap::default();
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
