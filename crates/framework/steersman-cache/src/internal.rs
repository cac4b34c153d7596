//! Handle: methods of a cache for other crates of this workspace. They are not part of the public interface and may
//! change in any release.
//!
//! `steersman-client` waits until the cache has seen a write, so it needs the informer that holds
//! an object and the resource version of that informer. `steersman-manager` notes that a cluster
//! cannot be reached. `steersman-controller` holds the informers of kinds that come and go,
//! follows the namespaces of a cache, and waits for kinds that its handlers read.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use steersman_informer::{Reason, UntypedInformer};
use steersman_object::{Gvk, Kind, Object, ObjectKey, ResourceVersion, SlotSet, TypedObject};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::error::Error;
use crate::shared::SharedCache;

pub use crate::coverage::Membership;
pub use crate::live_reads::{LiveIdentity, LiveList, LiveObject, LiveReads};
pub use crate::shared::{HeldInformers, NamespacedInformer};

/// The methods of a [`Cache`] that `steersman-client`, `steersman-manager` and `steersman-controller` call.
pub trait CacheInternals {
    /// Returns the cache that the other methods of this trait use.
    fn cache(&self) -> &Cache;

    /// Returns an object if the cache holds it decoded and [`Cache::get`] could return it without waiting. Never waits
    /// and starts no informer, so `None` does not mean that the object is absent.
    fn get_decoded<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.cache().shared.typed_decoded(key)
    }

    /// Returns the running informer that covers the objects of a key; `None` if it does not run, or if another replica
    /// holds the slot of the key. Declares nothing.
    fn untyped_of(&self, gvk: &Gvk, key: &ObjectKey) -> Option<UntypedInformer> {
        let shared = &self.cache().shared;
        let coverage = shared.known(gvk)?;
        // SHARD-10: no write is recorded, and no read waits, for objects that other replicas hold.
        if !shared.wants(&coverage, key) {
            return None;
        }
        running_at(self.cache(), gvk, &coverage.informer_for(key).ok()?)
    }

    /// Returns a handle for reads from the server in the scope of the running informer that covers a namespace; `None`
    /// if it does not run. The namespace of a cluster-scoped kind is ignored. Declares nothing and sends no request.
    fn live_reads(&self, gvk: &Gvk, namespace: Option<&str>) -> Option<LiveReads> {
        let coverage = self.cache().shared.known(gvk)?;
        let somewhere = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let informer_namespace = coverage.informer_for(&somewhere).ok()?;
        let settings = coverage.settings(informer_namespace.as_deref())?.clone();
        let untyped = running_at(self.cache(), gvk, &informer_namespace)?;
        let namespace = namespace.filter(|_| untyped.kind().is_namespaced());
        Some(LiveReads {
            namespace: namespace.map(ToOwned::to_owned),
            settings,
            untyped,
        })
    }

    /// Returns whether the informer of a key's namespace will hold an object with this key and these labels (`None`:
    /// unknown labels) when it receives the object. `None` if no such informer runs.
    fn membership(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<Membership> {
        let membership = self.cache().shared.known(gvk)?.membership(key, labels)?;
        self.untyped_of(gvk, key).map(|_| membership)
    }

    /// Records that this process wrote an object of a kind at this version (unset if the response had no version). The
    /// first list of an informer that starts later includes this write (RYOW-10). Running informers are not affected.
    fn note_written(&self, gvk: &Gvk, version: &ResourceVersion) {
        self.cache().shared.written_versions.raise(gvk, version);
    }

    /// Notes kinds with definitions that this program installs: informers that are declared later log no warning while
    /// the kind is not yet served.
    fn note_installed(&self, kinds: Vec<Gvk>) {
        self.cache().shared.installed.lock().extend(kinds);
    }

    /// Notes kinds with objects that this program converts: informers that are declared later log no warning while the
    /// server cannot convert them.
    fn note_converted(&self, kinds: Vec<Gvk>) {
        self.cache().shared.converted.lock().extend(kinds);
    }

    /// Returns whether this program installs the definition of a kind or converts its objects, so that the server can
    /// list the kind only with the program's help.
    fn is_provided(&self, gvk: &Gvk) -> bool {
        !self.cache().shared.expected_at_first(gvk).is_empty()
    }

    /// Makes informers keep digests of the applies of a program's field managers, for [`UntypedInformer::is_applied`].
    /// Objects that arrived before are not examined again.
    fn note_field_manager(&self, program: &str) {
        self.cache().shared.field_managers.note(program);
    }

    /// Notes the reason why the server cannot be reached; `None` when it can. Meanwhile a read of an unsynced kind
    /// fails with this reason instead of waiting, and [`Cache::informer_failures`] names it. Informers are not
    /// affected.
    fn note_server_problem(&self, problem: Option<(Reason, &str)>) {
        self.cache().shared.server_problem.set(problem);
    }

    /// Returns the informers of a kind with objects as `K`, started if needed. They count as declared while the
    /// returned value exists (CACHE-16).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    fn hold<K: Object>(&self, kind: &Kind) -> Result<HeldInformers<K>, Error> {
        SharedCache::hold(&self.cache().shared, kind)
    }

    /// Returns the informers of a kind like [`Cache::informers_of`], each with its namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    fn informers_by_namespace<K: Object>(
        &self,
        kind: &Kind,
    ) -> Result<Vec<NamespacedInformer<K>>, Error> {
        self.cache().shared.declare_in_each_namespace(kind)
    }

    /// Waits until each present informer of a kind has synced or has ended.
    ///
    /// Cancel safe.
    fn first_sync(&self, kind: &Kind) -> impl Future<Output = ()> + Send {
        let cache = self.cache();
        async move {
            let entries = cache.shared.registry.read().entries();
            for entry in entries.iter().filter(|entry| entry.kind() == kind) {
                entry.synced().await;
            }
        }
    }

    /// Returns the slots that all informers with a filter hold completely: declared ones and those that a read started,
    /// without those that have stopped or that fail before their first sync. All slots if no informer has a filter.
    fn shards_loaded(&self) -> SlotSet {
        self.cache().shared.shards_loaded()
    }

    /// Returns the slots that any informer with a filter holds; none if no informer has a filter.
    fn shards_held(&self) -> SlotSet {
        self.cache().shared.shards_held()
    }

    /// Waits until [`shards_loaded`](Self::shards_loaded) has these slots. Never ends if a slot is not wanted.
    ///
    /// Cancel safe.
    fn wait_for_shards(&self, slots: &SlotSet) -> impl Future<Output = ()> + Send {
        self.cache().shared.wait_for_shards(slots)
    }

    /// Returns a receiver of the number of changes of the cached namespaces. The number grows after each change.
    fn scope_changes(&self) -> watch::Receiver<u64> {
        self.cache().shared.scope.changed.subscribe()
    }
}

impl CacheInternals for Cache {
    fn cache(&self) -> &Cache {
        self
    }
}

fn running_at(cache: &Cache, gvk: &Gvk, namespace: &Option<Arc<str>>) -> Option<UntypedInformer> {
    let registry = cache.shared.registry.read();
    let untyped = registry.at(gvk, namespace)?.untyped();
    Some(untyped.clone()).filter(UntypedInformer::is_running)
}
