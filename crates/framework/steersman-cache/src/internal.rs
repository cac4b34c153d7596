//! Handle: methods of a cache that only other crates of this workspace call. They are not part of
//! the public interface and may change in any release.
//!
//! `steersman-client` waits until the cache has seen a write, so it needs the informer that holds
//! an object and the resource version of that informer. It also reads on behalf of its own caller,
//! which the warning about undeclared informers names. `steersman-manager` notes that a cluster
//! cannot be reached. `steersman-controller` holds the informers of kinds that come and go,
//! follows the namespaces of a cache, and waits for kinds that its handlers read.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::Location;
use std::sync::Arc;

use steersman_informer::{Reason, UntypedInformer};
use steersman_object::{Gvk, Kind, ListOptions, Object, ObjectKey, ResourceVersion, TypedObject};
use tokio::sync::watch;

use crate::cache::Cache;
use crate::error::Error;
use crate::informer_map::InformerKey;
use crate::listed::Listed;
use crate::reads::Reads;
use crate::shared::SharedCache;

pub use crate::coverage::Membership;
pub use crate::live_reads::{LiveIdentity, LiveList, LiveObject, LiveReads};
pub use crate::shared::{HeldInformers, NamespacedInformer};

/// The methods of a [`Cache`] that `steersman-client`, `steersman-manager` and `steersman-controller` call.
pub trait CacheInternals {
    /// Returns an object if it is in memory, decoded, and may be read as [`Cache::get`] reads it. Never waits, and
    /// starts no informer; `None` does not mean that the object is absent.
    fn get_decoded<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>>;

    /// Returns the running informer that holds the objects of a key, if there is one. Declares nothing.
    fn untyped_of(&self, gvk: &Gvk, key: &ObjectKey) -> Option<UntypedInformer>;

    /// Returns the live reads of the running informer that covers a namespace, if there is one; of a cluster-scoped
    /// kind, `namespace` is ignored. Declares nothing and sends no request.
    fn live_reads(&self, gvk: &Gvk, namespace: Option<&str>) -> Option<LiveReads>;

    /// Returns whether the informer of a key's namespace holds an object of this key with these labels (`None`:
    /// unknown labels) once it has received the object. `None` if no such informer runs.
    fn membership(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<Membership>;

    /// Records that this process wrote an object of a kind at this version, which is unset if the
    /// response contained none. The first list of an informer that starts later is at least as new
    /// (RYOW-10). Running informers are not affected.
    fn note_written(&self, gvk: &Gvk, version: &ResourceVersion);

    /// Notes kinds with definitions that this program installs: informers that are declared later log no warning when
    /// the kind is not served at first.
    fn note_installed(&self, kinds: Vec<Gvk>);

    /// Notes kinds with objects that this program converts: informers that are declared later log no warning when the
    /// server fails at first.
    fn note_converted(&self, kinds: Vec<Gvk>);

    /// Returns whether the server lists a kind only with the help of this program, which installs its definition or
    /// converts its objects.
    fn is_provided(&self, gvk: &Gvk) -> bool;

    /// Recognises the applies of a program's field managers in the objects of informers, for
    /// [`UntypedInformer::is_applied`]. Objects that arrived before are not looked at again.
    fn note_field_manager(&self, program: &str);

    /// Notes why the server cannot be reached, or that it can (`None`). Until it can, a read of a kind that has not
    /// synced fails with this reason instead of waiting, and [`Cache::informer_failures`] names it. Informers are not
    /// affected.
    fn note_server_problem(&self, problem: Option<(Reason, &str)>);

    /// Returns the informers of a kind as `K`s, and starts those that do not run. They count as declared as long
    /// as the returned value exists (CACHE-16).
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    fn hold<K: Object>(&self, kind: &Kind) -> Result<HeldInformers<K>, Error>;

    /// Returns the informers of a kind as [`Cache::informers_of`] does, each with its namespace.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    fn informers_by_namespace<K: Object>(
        &self,
        kind: &Kind,
    ) -> Result<Vec<NamespacedInformer<K>>, Error>;

    /// Waits until each present informer of a kind has synced, or has ended.
    ///
    /// Cancel safe.
    fn first_sync(&self, kind: &Kind) -> impl Future<Output = ()> + Send;

    /// Returns a receiver of a number that changes after namespaces were added or removed.
    fn scope_changes(&self) -> watch::Receiver<u64>;
}

/// The methods of [`Reads`] that `steersman-client` calls.
pub trait ReadsInternals<K> {
    /// Reads like [`Reads::get`], on behalf of the code at `caller`.
    fn get_for(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send;

    /// Lists like [`Reads::list`], on behalf of the code at `caller`.
    fn list_for(
        &self,
        list_options: &ListOptions,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Listed<K>, Error>> + Send;
}

impl CacheInternals for Cache {
    fn get_decoded<K: TypedObject>(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.shared.typed_decoded(key)
    }

    fn untyped_of(&self, gvk: &Gvk, key: &ObjectKey) -> Option<UntypedInformer> {
        let coverage = self.shared.known(gvk)?;
        mirror_at(self, gvk, coverage.informer_for(key).ok()?)
    }

    fn live_reads(&self, gvk: &Gvk, namespace: Option<&str>) -> Option<LiveReads> {
        let coverage = self.shared.known(gvk)?;
        let somewhere = ObjectKey::namespaced(namespace.unwrap_or_default(), "");
        let informer_namespace = coverage.informer_for(&somewhere).ok()?;
        let settings = coverage.settings(informer_namespace.as_deref())?.clone();
        let untyped = mirror_at(self, gvk, informer_namespace)?;
        let namespace = namespace.filter(|_| untyped.kind().is_namespaced());
        Some(LiveReads {
            namespace: namespace.map(ToOwned::to_owned),
            settings,
            untyped,
        })
    }

    fn membership(
        &self,
        gvk: &Gvk,
        key: &ObjectKey,
        labels: Option<&BTreeMap<String, String>>,
    ) -> Option<Membership> {
        let membership = self.shared.known(gvk)?.membership(key, labels)?;
        self.untyped_of(gvk, key).map(|_| membership)
    }

    fn note_written(&self, gvk: &Gvk, version: &ResourceVersion) {
        self.shared.written_versions.raise(gvk, version);
    }

    fn note_installed(&self, kinds: Vec<Gvk>) {
        self.shared.installed.lock().extend(kinds);
    }

    fn note_converted(&self, kinds: Vec<Gvk>) {
        self.shared.converted.lock().extend(kinds);
    }

    fn is_provided(&self, gvk: &Gvk) -> bool {
        !self.shared.expected_at_first(gvk).is_empty()
    }

    fn note_field_manager(&self, program: &str) {
        self.shared.field_managers.note(program);
    }

    fn note_server_problem(&self, problem: Option<(Reason, &str)>) {
        self.shared.server_problem.set(problem);
    }

    fn hold<K: Object>(&self, kind: &Kind) -> Result<HeldInformers<K>, Error> {
        SharedCache::hold(&self.shared, kind)
    }

    fn informers_by_namespace<K: Object>(
        &self,
        kind: &Kind,
    ) -> Result<Vec<NamespacedInformer<K>>, Error> {
        self.shared.declare_in_each_namespace(kind)
    }

    async fn first_sync(&self, kind: &Kind) {
        let entries = self.shared.registry.read().entries();
        for entry in entries.iter().filter(|entry| entry.kind() == kind) {
            entry.synced().await;
        }
    }

    fn scope_changes(&self) -> watch::Receiver<u64> {
        self.shared.scope.watch_changes()
    }
}

impl<K: Object> ReadsInternals<K> for Reads<K> {
    fn get_for(
        &self,
        key: &ObjectKey,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Arc<K>, Error>> + Send {
        self.get_at(key, caller)
    }

    fn list_for(
        &self,
        list_options: &ListOptions,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Listed<K>, Error>> + Send {
        self.list_at(list_options, caller)
    }
}

fn mirror_at(cache: &Cache, gvk: &Gvk, namespace: Option<Arc<str>>) -> Option<UntypedInformer> {
    let gvk = gvk.clone();
    let entry = cache
        .shared
        .registry
        .read()
        .get(&InformerKey { gvk, namespace })?;
    Some(entry.untyped().clone()).filter(UntypedInformer::is_running)
}
