//! Words: one named index of a kind, as it is handed to each of the kind's informers.

use std::fmt;
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
