//! Machine: what the server holds, and the few ways in which it changes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::json;
use steersman_schema::resource::{Resource, StorageKey};

use crate::auth::{Authorization, Authorizer, Key, Tokens, bootstrap_objects};
use crate::store::{Draft, Store, Stored};

use super::catalogue::Catalogue;
use super::compiled::Compiled;
use super::due::{Address, Change, Due};
use super::memory::Memory;
use super::metadata;
use super::options::Object;
use super::rng::Rng;
use super::standing::Standing;

/// The text of every lost race.
pub(super) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// Chosen when the registry is made.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part of a server of its own"
)]
pub struct RegistryOptions {
    /// Seed of uids and generated names; the same seed gives the same ones. Default 0.
    pub seed: u64,
    /// How many past revisions are kept before the older half is compacted away. Default 10,000.
    pub retained_revisions: usize,
    /// How many bytes of JSON past revisions may hold before the older half is compacted away.
    /// Default 128 MiB.
    pub retained_bytes: usize,
    /// Whether the garbage collector's work is done in place, within the request that makes it due:
    /// dependents of a deleted owner are collected, orphaned or waited for. Default true. Without
    /// it such objects wait for somebody to do it, as on a server that runs alone.
    pub collect_garbage: bool,
    /// Whether a deleted namespace is emptied and removed in place. Default true.
    pub end_namespaces: bool,
    /// Whether ClusterRoles with an `aggregationRule` are kept up to date. Default true.
    pub gather_roles: bool,
    /// Whether the status of ResourceQuotas is kept up to date: what they limit, and what is used.
    /// Default true. Without it a quota limits nothing before somebody writes its status.
    pub count_quotas: bool,
    /// Whether every namespace has a ServiceAccount `default` and, once the server listens, the
    /// ConfigMap `kube-root-ca.crt`; new Pods need a ServiceAccount then, and mount its token. Default
    /// false.
    pub furnish_namespaces: bool,
    /// Whether it is noted in `metadata.managedFields` who owns which field. Default true. Without
    /// it an apply finds no conflicts and removes nothing.
    pub track_managed_fields: bool,
    /// Who decides what a user may do. Default [`Authorization::AlwaysAllow`]. With
    /// [`Authorization::Rbac`] the registry begins with the ClusterRoles of a cluster.
    pub authorization: Authorization,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            retained_revisions: 10_000,
            retained_bytes: 128 << 20,
            collect_garbage: true,
            end_namespaces: true,
            gather_roles: true,
            count_quotas: true,
            furnish_namespaces: false,
            track_managed_fields: true,
            authorization: Authorization::default(),
        }
    }
}

/// The server's state and its verbs. Synchronous; the owner locks it and tells it the time.
///
/// Every verb either refuses with a [`Status`](steersman_text::status::Status) and changes nothing, or
/// commits before it returns (SRV-REG-1).
#[derive(Debug)]
pub struct Registry {
    pub(super) options: RegistryOptions,
    pub(super) rng: Rng,
    pub(super) store: Store,
    pub(super) catalogue: Catalogue,
    /// Objects by the uids of their owners.
    pub(super) dependents: HashMap<String, BTreeSet<Address>>,
    /// Removed objects whose consequences are still to be drawn.
    pub(super) removed: VecDeque<(StorageKey, Arc<Stored>)>,
    /// What writes and removals gave the played controllers to do.
    pub(super) due: Due,
    /// Numbers the installations of custom resource definitions.
    pub(super) installations: u64,
    /// The last address given to a Service, counted from the start of their network.
    pub(super) last_address: u16,
    pub(super) last_node_port: i64,
    changed: BTreeSet<StorageKey>,
    /// What requests are held against.
    pub(super) standing: Standing,
    /// The webhooks and the admission policies as they were compiled last.
    pub(super) compiled: RefCell<Compiled>,
    /// What the verb that is running knows of webhooks. Reads ask too, hence the cell.
    pub(super) memory: RefCell<Memory>,
    /// A watch that opens from before this revision is told that it comes too late.
    pub(super) forgotten: u64,
    /// The certificate of the authority that vouches for the listener, in PEM; `None` before there is
    /// one.
    pub(super) authority: Option<String>,
    /// Tokens that stand for users by themselves.
    pub(super) tokens: Tokens,
    /// What the tokens of ServiceAccounts are signed with.
    pub(super) key: Key,
}

impl Registry {
    /// A server with its built-in kinds and the four initial namespaces.
    #[must_use]
    pub fn new(options: RegistryOptions, now: jiff::Timestamp) -> Self {
        let mut new = Self {
            rng: Rng::new(options.seed),
            store: Store::new(options.retained_revisions, options.retained_bytes),
            catalogue: Catalogue::new(),
            dependents: HashMap::new(),
            removed: VecDeque::new(),
            due: Due::default(),
            installations: 0,
            last_address: 0,
            last_node_port: 0,
            changed: BTreeSet::new(),
            standing: Standing::default(),
            compiled: RefCell::default(),
            memory: RefCell::default(),
            forgotten: 0,
            authority: None,
            tokens: Tokens::default(),
            key: key(options.seed),
            options,
        };
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({
                "kind": "Namespace",
                "apiVersion": "v1",
                "metadata": {
                    "name": name,
                    "uid": new.rng.uid(),
                    "creationTimestamp": metadata::time(now),
                    "labels": {"kubernetes.io/metadata.name": name},
                },
                "spec": {"finalizers": ["kubernetes"]},
                "status": {"phase": "Active"},
            });
            new.put(&StorageKey::new("", "namespaces"), "", name, namespace);
        }
        new.bootstrap(now);
        new
    }

    /// Stores what a cluster begins with and is not there: what is in every namespace, and the
    /// ClusterRoles and bindings, where they decide anything.
    pub fn bootstrap(&mut self, now: jiff::Timestamp) {
        self.note_lacks();
        self.settle(now);
        if self.options.authorization != Authorization::Rbac {
            return;
        }
        for (plural, mut object) in bootstrap_objects() {
            let name = metadata::text(&object, "name").to_owned();
            let storage = StorageKey::new("rbac.authorization.k8s.io", plural);
            if self.store.get(&storage, "", &name).is_some() {
                continue;
            }
            let uid = self.rng.uid();
            let fields = metadata::of(&mut object);
            fields.insert("uid".to_owned(), uid.into());
            fields.insert("creationTimestamp".to_owned(), metadata::time(now).into());
            self.put(&storage, "", &name, object);
        }
        self.aggregate_roles();
    }

    /// Who decides what a user may do.
    pub fn authorizer(&self) -> Authorizer<'_> {
        Authorizer::new(self.options.authorization, &self.store)
    }

    /// Every served resource (one entry per served version), groups in discovery's order.
    #[must_use]
    pub fn resources(&self) -> &[Arc<Resource>] {
        self.catalogue.all()
    }

    /// Grows whenever [`Registry::resources`] changes: discovery documents may be kept until
    /// then.
    #[must_use]
    pub fn catalogue_version(&self) -> u64 {
        self.catalogue.version()
    }

    /// The resource behind a path.
    #[must_use]
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.catalogue.find(group, version, plural).map(Arc::clone)
    }

    /// How many objects of each group and resource are stored, of those of which there are any.
    pub fn object_counts(&self) -> BTreeMap<(&str, &str), usize> {
        let mut counts = BTreeMap::new();
        // What several versions serve counts once.
        let mut seen = HashSet::new();
        for resource in self.catalogue.all() {
            let count = self.store.count(&resource.storage);
            if count > 0 && seen.insert(&resource.storage) {
                counts.insert((resource.group.as_str(), resource.plural.as_str()), count);
            }
        }
        counts
    }

    /// Returns the number of objects of a storage that are held decoded beside their encoded form.
    #[must_use]
    pub fn decoded(&self, storage: &StorageKey) -> usize {
        self.store.decoded(storage)
    }

    /// The newest revision of the store.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// The storages that changed since the last call: whom to wake. Call it after every mutating
    /// verb, under the lock; wake after unlocking.
    #[must_use = "watches of these storages wait to be woken"]
    pub fn take_changed(&mut self) -> Vec<StorageKey> {
        if self.changed.is_empty() {
            return Vec::new();
        }
        if self.changed.contains(&cluster_roles()) {
            self.aggregate_roles();
        }
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// The decoded objects that were replaced since the last call. Call it after every mutating verb,
    /// under the lock; drop them after unlocking.
    #[must_use = "it takes a while to drop them"]
    pub fn take_spent(&mut self) -> Vec<Arc<Stored>> {
        self.store.take_spent()
    }

    /// Forgets every past revision: a watch or list that resumes from before now gets 410, also
    /// where nothing of its own was lost. Watches that are open lose nothing (SRV-STORE-4).
    pub fn compact(&mut self) {
        self.store.compact(self.store.revision());
        self.forgotten = self.store.revision();
    }

    /// Marks a storage as changed though no object of it did: its watches must look.
    pub(super) fn touch(&mut self, storage: &StorageKey) {
        self.standing.notice(&self.store, storage);
        self.changed.insert(storage.clone());
    }

    /// Stores an object as the next revision; what follows from it is drawn by `settle`.
    pub(super) fn put(
        &mut self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
        object: impl Into<Draft>,
    ) -> Arc<Stored> {
        let draft = object.into();
        let old = self.store.get(storage, namespace, name).map(Arc::clone);
        let collected = self.options.collect_garbage;
        let change = collected.then(|| Change::between(old.as_deref(), &draft.value));
        let stored = self.store.put(storage, namespace, name, draft);
        let owned_as_before = |old: &Arc<Stored>| old.owners().eq(stored.owners());
        if !old.as_ref().is_some_and(owned_as_before) {
            if let Some(old) = &old {
                self.unlink(storage, old);
            }
            self.link(storage, &stored);
        }
        if let Some(change) = change {
            self.note_change(storage, &change, &stored);
        }
        if self.options.end_namespaces && old.is_some() {
            self.note_namespace(storage, &stored);
        }
        self.note_lack(storage, &stored);
        self.touch(storage);
        self.note_usage(storage, old.as_ref(), Some(&stored));
        stored
    }

    /// Notes an object with its owners.
    pub(super) fn link(&mut self, storage: &StorageKey, stored: &Stored) {
        for owner in stored.owners() {
            let address = address(storage, stored);
            self.dependents
                .entry(owner.to_owned())
                .or_default()
                .insert(address);
        }
    }

    /// Removes an object as the next revision; what follows from it is drawn by `settle`.
    pub(super) fn remove(&mut self, storage: &StorageKey, old: &Stored) -> Option<Arc<Stored>> {
        self.unlink(storage, old);
        let gone = self.store.delete(storage, &old.namespace, &old.name)?;
        self.removed.push_back((storage.clone(), Arc::clone(&gone)));
        self.touch(storage);
        self.note_usage(storage, Some(&gone), None);
        Some(gone)
    }

    fn unlink(&mut self, storage: &StorageKey, old: &Stored) {
        let address = address(storage, old);
        for owner in old.owners() {
            if let Some(set) = self.dependents.get_mut(owner) {
                set.remove(&address);
                if set.is_empty() {
                    self.dependents.remove(owner);
                }
            }
        }
    }

    /// An answer that is not kept: a dry run's, or a derived object such as a Scale.
    pub(super) fn answer(
        namespace: &str,
        name: &str,
        object: impl Into<Draft>,
        revision: u64,
    ) -> Object {
        Object {
            stored: Arc::new(Stored::new(namespace.into(), name.into(), object, revision)),
        }
    }
}

/// Where ClusterRoles are.
pub(super) fn cluster_roles() -> StorageKey {
    StorageKey::new("rbac.authorization.k8s.io", "clusterroles")
}

/// The key that tokens are signed with: it comes of the seed, so that a server that is started again
/// from what it saved takes the tokens it gave out.
fn key(seed: u64) -> Key {
    let mut rng = Rng::new(seed ^ 0x0074_6f6b_656e_7321);
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&rng.draw().to_be_bytes());
    }
    Key::new(bytes)
}

pub(super) fn address(storage: &StorageKey, stored: &Stored) -> Address {
    (
        storage.clone(),
        Arc::clone(&stored.namespace),
        Arc::clone(&stored.name),
    )
}
