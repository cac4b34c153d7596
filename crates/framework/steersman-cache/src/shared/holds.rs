//! Handle: keeps the informers of a kind while an optional watch needs them.

use std::sync::Arc;

use steersman_object::{Kind, Object};

use super::namespaced_informer::NamespacedInformer;
use super::{Purpose, SharedCache};
use crate::error::Error;
use crate::informer_entry::{HoldGuard, InformerEntry};
use crate::informer_map::InformerKey;

/// The informers of a kind, kept for an optional watch: they count as declared until this value is dropped. See
/// [`CacheInternals::hold`](crate::internal::CacheInternals::hold).
///
/// After the drop, an informer that is not declared otherwise ends once it was idle for its linger time.
#[derive(derive_more::Debug)]
#[debug("{:?}", held.iter().map(|held| &held.key).collect::<Vec<_>>())]
#[must_use = "dropping it releases the informers"]
pub struct HeldInformers<K: Object> {
    shared: Arc<SharedCache>,
    held: Vec<HeldInformer<K>>,
}

struct HeldInformer<K: Object> {
    key: InformerKey,
    informer: NamespacedInformer<K>,
    _guard: HoldGuard,
}

impl SharedCache {
    /// Returns the informers of a kind with objects as `K`, started if needed, and keeps them while the returned value
    /// exists.
    pub(crate) fn hold<K: Object>(
        shared: &Arc<Self>,
        kind: &Kind,
    ) -> Result<HeldInformers<K>, Error> {
        let hold = |namespace: Option<Arc<str>>| {
            let key = InformerKey {
                gvk: kind.gvk().clone(),
                namespace: namespace.clone(),
            };
            let (guard, informer) = shared.namespaced_informer(kind, namespace, Purpose::Hold)?;
            Ok(HeldInformer {
                key,
                informer,
                _guard: HoldGuard::new(guard),
            })
        };
        Ok(HeldInformers {
            held: shared.for_each_namespace(kind, hold)?,
            shared: Arc::clone(shared),
        })
    }

    /// Ends an informer at once if it is not declared and nothing uses it (CACHE-16).
    fn end_unused(&self, key: &InformerKey) {
        let Some(entry) = self.registry.read().get(key) else {
            return;
        };
        // The first call clears the mark of an earlier use. Both calls are outside the registry's lock, because
        // counting subscribers may wait.
        entry.take_used();
        if entry.take_used() {
            return;
        }
        // CACHE-8: a later use is recorded under this lock, and keeps the informer.
        let removed = self.registry.write().remove_if(key, InformerEntry::may_end);
        if let Some(unused) = removed {
            unused.end();
        }
    }
}

impl<K: Object> HeldInformers<K> {
    /// Returns the informers that this value keeps, one per cached namespace.
    pub fn informers(&self) -> impl Iterator<Item = &NamespacedInformer<K>> {
        self.held.iter().map(|held| &held.informer)
    }

    /// Releases the informers because the server no longer serves their kind. Informers that nothing else uses end at
    /// once instead of after their linger time, because their requests fail.
    pub fn end(self) {
        let Self { shared, held } = self;
        let keys: Vec<InformerKey> = held.iter().map(|held| held.key.clone()).collect();
        drop(held);
        for key in &keys {
            shared.end_unused(key);
        }
    }
}
