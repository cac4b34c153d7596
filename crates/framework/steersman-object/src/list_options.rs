//! Words: the options of a list, which select objects of a kind.

use std::any::{TypeId, type_name};
use std::marker::PhantomData;

use crate::field_selector::FieldSelector;
use crate::selector::LabelSelector;

/// The name of the index of owner uids, which [`ListOptions::owned_by`] reads.
pub const OWNER_UID: &str = "metadata.ownerReferences.uid";

/// The name of the index of the controlling owner's uid, which [`ListOptions::controlled_by`] reads.
pub const CONTROLLER_UID: &str = "metadata.controller.uid";

/// Selects the objects of one kind for a list, by default all. An object must meet every condition.
///
/// The cache and the API server accept the same options, except that only the cache has [indexes](Self::index), and
/// only the server selects by [fields](Self::fields). An unsupported option makes the list fail.
///
/// ```
/// use steersman_object::{LabelSelector, ListOptions};
///
/// let web = ListOptions::new()
///     .namespace("shop")
///     .labels(LabelSelector::label("app", "web"));
/// assert_eq!(web.selected_namespace(), Some("shop"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct ListOptions {
    namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    index_terms: Vec<(String, String)>,
    typed_indexes: Vec<TypedIndex>,
    limit: Option<usize>,
    skip_malformed: bool,
}

/// An index selected by an [`IndexKey`], with the object type of that key.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TypedIndex {
    index: &'static str,
    type_id: TypeId,
    type_name: &'static str,
}

/// The name of an index on objects of type `K` with values of type `V`. As a constant, it connects the code that
/// registers the index with the code that reads it.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use steersman_object::{IndexKey, ListOptions};
///
/// const NODE: IndexKey<Pod, String> = IndexKey::new("spec.nodeName");
/// let here = ListOptions::new().by(&NODE, "node-1");
/// ```
#[derive(derive_more::Debug)]
#[debug("IndexKey({name:?})")]
pub struct IndexKey<K, V> {
    name: &'static str,
    of: PhantomData<fn(V) -> K>,
}

impl ListOptions {
    /// Selects every object of the kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Selects objects of one namespace; the empty name stands for all namespaces, as in Kubernetes.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into()).filter(|name| !name.is_empty());
        self
    }

    /// Selects objects with matching labels.
    pub fn labels(mut self, selector: LabelSelector) -> Self {
        self.labels = selector;
        self
    }

    /// Selects objects with matching fields. Only an API server evaluates field selectors, for few fields per kind; a
    /// list from the cache returns an error.
    pub fn fields(mut self, selector: FieldSelector) -> Self {
        self.fields = selector;
        self
    }

    /// Selects objects with this value in the index `name`. Repeated calls select objects that have all values. Only a
    /// cache has indexes; a list from an API server returns an error.
    pub fn index(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.index_terms.push((name.into(), value.into()));
        self
    }

    /// Selects objects by an index like [`index`](Self::index), but with a typed key. A list of another object type
    /// than `K` returns an error.
    pub fn by<K: 'static, V: ToString>(
        mut self,
        index: &IndexKey<K, V>,
        value: impl Into<V>,
    ) -> Self {
        self.typed_indexes.push(TypedIndex {
            index: index.name(),
            type_id: TypeId::of::<K>(),
            type_name: type_name::<K>(),
        });
        self.index(index.name(), value.into().to_string())
    }

    /// Selects objects that have an owner with this uid, by the index [`OWNER_UID`].
    pub fn owned_by(self, uid: impl Into<String>) -> Self {
        self.index(OWNER_UID, uid)
    }

    /// Selects objects that have a controlling owner with this uid, by the index [`CONTROLLER_UID`].
    pub fn controlled_by(self, uid: impl Into<String>) -> Self {
        self.index(CONTROLLER_UID, uid)
    }

    /// Selects at most `limit` objects, the first by key. If a kind is cached in several namespaces, the objects of the
    /// first namespaces come first.
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Omits objects that do not decode; without this option such an object fails the list.
    ///
    /// Use this for display or counting. Code that creates or deletes objects by comparing with a
    /// list would mistake an unreadable object for an absent one.
    pub fn skip_malformed(mut self) -> Self {
        self.skip_malformed = true;
        self
    }

    /// Reduces the limit, if any, by `found`, the number of objects found elsewhere.
    pub fn reduce_limit(mut self, found: usize) -> Self {
        self.limit = self.limit.map(|limit| limit.saturating_sub(found));
        self
    }

    /// Returns the selected namespace; `None` for all namespaces.
    pub fn selected_namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the label selector; the default one selects every object.
    pub fn selected_labels(&self) -> &LabelSelector {
        &self.labels
    }

    /// Returns the field selector; the default one selects every object.
    pub fn selected_fields(&self) -> &FieldSelector {
        &self.fields
    }

    /// Returns the selected indexes, each with its value.
    pub fn selected_indexes(&self) -> &[(String, String)] {
        &self.index_terms
    }

    /// Returns the greatest number of selected objects; `None` without a limit.
    pub fn selected_limit(&self) -> Option<usize> {
        self.limit
    }

    /// Returns whether objects that do not decode are omitted.
    pub fn skips_malformed(&self) -> bool {
        self.skip_malformed
    }

    /// Returns the first index with a typed key for another object type than `K`, and the name of that type (CACHE-9).
    pub fn index_of_another_type<K: 'static>(&self) -> Option<(&'static str, &'static str)> {
        let mut indexes = self.typed_indexes.iter();
        let other = indexes.find(|index| index.type_id != TypeId::of::<K>())?;
        Some((other.index, other.type_name))
    }
}

impl<K, V> IndexKey<K, V> {
    /// Creates the key of the index named `name`.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            of: PhantomData,
        }
    }

    /// Returns the name of the index.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typed_key_fits_only_lists_of_its_own_type() {
        const LENGTH: IndexKey<String, usize> = IndexKey::new("length");
        let list_options = ListOptions::new().index("plain", "x").by(&LENGTH, 3_usize);
        assert_eq!(list_options.index_of_another_type::<String>(), None);
        let (index, of) = list_options.index_of_another_type::<u8>().unwrap();
        assert_eq!((index, of), ("length", type_name::<String>()));
        let terms = [("plain", "x"), ("length", "3")];
        assert_eq!(
            list_options.selected_indexes(),
            terms.map(|(k, v)| (k.into(), v.into()))
        );
    }

    #[test]
    fn an_empty_namespace_selects_all_namespaces() {
        let shop = ListOptions::new().namespace("shop");
        assert_eq!(shop.clone().namespace(""), ListOptions::new());
        assert_eq!(shop.selected_namespace(), Some("shop"));
    }
}
