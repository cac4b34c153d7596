//! Words: one named index of a kind, as it is handed to each of the kind's informers.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The values under which an object is found.
type Values<K> = dyn Fn(&K) -> Vec<String> + Send + Sync;

/// A name, and the values under which an object is found.
///
/// A pure function of the object: it runs once when an object is stored, and the values are dropped
/// with it.
pub(crate) struct FieldIndex<K> {
    name: String,
    values: Arc<Values<K>>,
}

/// The name of an index of the kind `K` with values of the type `V`, for a constant that both who
/// registers it and who reads by it use.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_cache::{IndexKey, ListOptions};
///
/// const NODE: IndexKey<Pod, String> = IndexKey::new("spec.nodeName");
/// let here = ListOptions::new().by(&NODE, "node-1");
/// ```
pub struct IndexKey<K, V> {
    name: &'static str,
    of: PhantomData<fn(V) -> K>,
}

impl<K, V> IndexKey<K, V> {
    /// The index of this name.
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            of: PhantomData,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<K, V> fmt::Debug for IndexKey<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("IndexKey").field(&self.name).finish()
    }
}

impl<K> FieldIndex<K> {
    /// An index whose function yields any number of values: an `Option` for a field that may be
    /// missing, a `Vec` for a list.
    pub(crate) fn new<I, V>(
        name: impl Into<String>,
        values: impl Fn(&K) -> I + Send + Sync + 'static,
    ) -> Self
    where
        I: IntoIterator<Item = V>,
        V: Into<String>,
    {
        Self {
            name: name.into(),
            values: Arc::new(move |object| values(object).into_iter().map(Into::into).collect()),
        }
    }

    /// The name it is registered under.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A function that can be given away.
    pub(crate) fn function(&self) -> impl Fn(&K) -> Vec<String> + Send + Sync + 'static
    where
        K: 'static,
    {
        let values = Arc::clone(&self.values);
        move |object| values(object)
    }
}

impl<K> fmt::Debug for FieldIndex<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FieldIndex")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_field_has_no_value_and_a_list_has_many() {
        let optional = FieldIndex::new("node", |n: &Option<&'static str>| *n);
        assert_eq!(optional.function()(&Some("a")), ["a"]);
        assert!(optional.function()(&None).is_empty());
        let many = FieldIndex::new("hosts", |hosts: &Vec<String>| hosts.clone());
        assert_eq!(many.function()(&vec!["a".into(), "b".into()]), ["a", "b"]);
        assert_eq!(many.name(), "hosts");
    }
}
