//! Handle: the informers of a kind, each with its namespace and the reason of its end.

use std::sync::Arc;

use steersman_informer::{Informer, Subscription};
use steersman_object::{Kind, Object};

use super::{Purpose, SharedCache};
use crate::error::Error;
use crate::informer_entry::{InformerEntry, UseGuard};

/// An informer with its namespace and the reason of its end. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("NamespacedInformer {{ kind: {:?}, namespace: {namespace:?}, .. }}", entry.kind())]
pub struct NamespacedInformer<K: Object> {
    namespace: Option<Arc<str>>,
    informer: Informer<K>,
    entry: InformerEntry,
}

impl SharedCache {
    /// Returns the results of `obtain` for each namespace with an informer of a kind. If the namespaces change
    /// meanwhile, `obtain` is called again for all namespaces, so that none is missing (CACHE-17).
    pub(crate) fn for_each_namespace<T>(
        &self,
        kind: &Kind,
        obtain: impl Fn(Option<Arc<str>>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        loop {
            let as_of = self.scope.changes();
            let namespaces = self.coverage(kind).informers().into_iter();
            match namespaces.map(&obtain).collect() {
                // A namespace was removed after `namespaces` was computed, so the namespaces are read again.
                Err(error) if Error::is_outside_scope(&error) => {}
                obtained if self.scope.changes() == as_of => return obtained,
                _ => {}
            }
        }
    }

    pub(crate) fn declare_in_each_namespace<K: Object>(
        &self,
        kind: &Kind,
    ) -> Result<Vec<NamespacedInformer<K>>, Error> {
        let declare = |namespace| {
            let (_guard, informer) = self.namespaced_informer(kind, namespace, Purpose::Declare)?;
            Ok(informer)
        };
        self.for_each_namespace(kind, declare)
    }

    pub(crate) fn namespaced_informer<K: Object>(
        &self,
        kind: &Kind,
        namespace: Option<Arc<str>>,
        purpose: Purpose,
    ) -> Result<(UseGuard, NamespacedInformer<K>), Error> {
        let is_permanent = matches!(purpose, Purpose::Declare);
        let obtain = |entry: &InformerEntry| entry.informer::<K>(is_permanent);
        let (guard, informer) = self.entry(kind, namespace.clone(), purpose, obtain)?;
        let informer = NamespacedInformer {
            namespace,
            informer,
            entry: guard.clone(),
        };
        Ok((guard, informer))
    }
}

impl<K: Object> NamespacedInformer<K> {
    /// Returns the namespace of the informer; `None` for all namespaces without their own informer.
    pub fn namespace(&self) -> Option<&Arc<str>> {
        self.namespace.as_ref()
    }

    /// Returns the informer. It holds the objects of [`namespace`](Self::namespace) alone.
    pub fn informer(&self) -> &Informer<K> {
        &self.informer
    }

    /// Subscribes to the informer. If the informer has ended, the subscription ends at once.
    pub fn subscribe(&self) -> Subscription<K> {
        self.informer.subscribe()
    }

    /// Returns whether the informer was removed from the cache, with its namespace or alone. True before the
    /// subscriptions of the informer end.
    pub fn was_removed(&self) -> bool {
        self.entry.is_removed()
    }

    /// Returns whether the informer ended because its namespace was removed from the scope of the cache. True before
    /// the subscriptions of the informer end.
    pub fn has_left_scope(&self) -> bool {
        self.entry.has_left_scope()
    }
}
