//! Words: a named index of a kind, shared by the kind's informers.

use std::fmt;
use std::sync::Arc;

/// Computes the index values of an object.
type Values<K> = dyn Fn(&K) -> Vec<String> + Send + Sync;

/// A field index: a name, and a function that computes the index values of an object.
///
/// The function must depend on the object alone. It runs once when an object is stored.
pub(crate) struct FieldIndex<K> {
    name: String,
    values: Arc<Values<K>>,
}

impl<K> FieldIndex<K> {
    /// Creates an index. The function returns any number of values: an `Option` for an optional
    /// field, a `Vec` for a list.
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

    /// Returns the name of the index.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the function as a value that an informer can own.
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
    fn an_optional_field_has_at_most_one_value_and_a_list_has_many() {
        let optional = FieldIndex::new("node", |n: &Option<&'static str>| *n);
        assert_eq!(optional.function()(&Some("a")), ["a"]);
        assert!(optional.function()(&None).is_empty());
        let many = FieldIndex::new("hosts", |hosts: &Vec<String>| hosts.clone());
        assert_eq!(many.function()(&vec!["a".into(), "b".into()]), ["a", "b"]);
        assert_eq!(many.name(), "hosts");
    }
}
