//! Machine: the namespaces with informers that a watch or a poll has subscribed to.

use std::collections::BTreeSet;
use std::sync::Arc;

use steersman_cache::internal::NamespacedInformer;
use steersman_object::Object;

/// The namespaces with a subscription (CTRL-42); `None` stands for all namespaces.
#[derive(Debug, Default)]
pub(crate) struct FollowedNamespaces {
    followed: BTreeSet<Option<Arc<str>>>,
}

impl FollowedNamespaces {
    /// Returns the informers of namespaces without a subscription, and records these namespaces. The caller subscribes
    /// to the returned informers.
    pub(crate) fn begin<'a, K: Object>(
        &mut self,
        informers: impl IntoIterator<Item = &'a NamespacedInformer<K>>,
    ) -> Vec<NamespacedInformer<K>> {
        let informers = informers.into_iter();
        let new = informers.filter(|informer| self.followed.insert(informer.namespace().cloned()));
        new.cloned().collect()
    }

    /// Records the end of a subscription. Returns true if the subscription ended because its namespace was removed from
    /// the cache, and false if the informer was removed or the cache has stopped.
    pub(crate) fn end<K: Object>(&mut self, informer: &NamespacedInformer<K>) -> bool {
        self.end_of(&informer.namespace().cloned());
        informer.has_left_scope()
    }

    /// Records the end of the subscription of a namespace.
    pub(crate) fn end_of(&mut self, namespace: &Option<Arc<str>>) {
        self.followed.remove(namespace);
    }
}
