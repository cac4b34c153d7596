//! Machine: `Registry`, the state of the server with its stored objects, and the functions that change it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::status::{GroupResource, Status};
use steersman_auth::{
    Authorization, Authorizer, OptionError, TokenIssuer, TokenOptions, TokenSecret, Tokens,
};
use steersman_schema::builtin::STORAGE_MIGRATION;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_store::{AfterWrites, Draft, Store, Stored};

use super::pending_work::{Address, OwnershipChange, PendingWork, SecretName};
use super::recorder::{Counters, Recorder};
use super::service_network::ServiceNetwork;
use crate::policies::compiled::Compiled;
use crate::policies::presence::Presence;
use crate::requests::catalogue::Catalogue;
use crate::requests::claimed_names::ClaimedNames;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, VersionedObject};
use crate::requests::rng::Rng;
use crate::state::verb_state::VerbState;

/// The message of every 409 because of an outdated resource version.
pub(crate) const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

/// The options of a [`Registry`]: limits of its history, the controllers that run in it, authorization and tokens.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent parts of a server"
)]
pub struct RegistryOptions {
    /// The seed of generated uids and names: two registries with the same seed generate the same uids. Default 0.
    pub seed: u64,
    /// Maximum number of past revisions; when exceeded, the older half is compacted. Default 10,000.
    pub retained_revisions: usize,
    /// Maximum size of the past revisions, in bytes of JSON; beyond it the older half is compacted. Default 128 MiB.
    pub retained_bytes: usize,
    /// Whether the garbage collector runs inside delete requests: it deletes the dependents of a deleted owner, orphans
    /// them, or keeps the owner until they are deleted. Default true. Otherwise dependents of deleted owners stay.
    pub collect_garbage: bool,
    /// Whether the objects in a deleted namespace are deleted, and then the namespace is removed. Default true.
    pub end_namespaces: bool,
    /// Whether a deleted CRD or namespace is removed within the request, with all of its objects. Default true.
    /// Otherwise the request only marks the CRD or namespace, and a driver calls [`Registry::remove_marked`] later.
    pub remove_at_once: bool,
    /// The components that this process simulates, by the names of their ComponentStatuses. Default: no component.
    pub played_components: Vec<&'static str>,
    /// Whether a ClusterRole with an `aggregationRule` gets the rules of the selected ClusterRoles. Default true.
    pub gather_roles: bool,
    /// Whether StorageVersionMigrations (`storagemigration.k8s.io/v1beta1`) are served. Default false, as in 1.36.
    pub serve_storage_migrations: bool,
    /// Whether a driver runs a [`StorageMigrator`](crate::StorageMigrator); only with `serve_storage_migrations`.
    /// Default true.
    pub migrate_storage: bool,
    /// Whether the quota controller runs inside write requests: it keeps limits and usage in the status of
    /// ResourceQuotas. Default true. Otherwise a quota limits nothing until a client writes its status.
    pub count_quotas: bool,
    /// Whether every namespace gets a ServiceAccount `default` and, once the server listens, the ConfigMap
    /// `kube-root-ca.crt`. With true, a new Pod needs a ServiceAccount, and mounts its token. Default false.
    pub furnish_namespaces: bool,
    /// Whether objects have `metadata.managedFields`. Default true. Without managedFields, a server-side apply has no
    /// conflicts, and removes no field that the client left out.
    pub track_managed_fields: bool,
    /// The authorization mode. Default [`Authorization::AlwaysAllow`]. With [`Authorization::Rbac`] the registry starts
    /// with the default ClusterRoles of a cluster.
    pub authorization: Authorization,
    /// The issuer, the audiences and the keys of the tokens of ServiceAccounts.
    pub tokens: TokenOptions,
    /// The network of the addresses of Services, as a CIDR. Default `10.96.0.0/16`.
    pub service_cluster_ip_range: Option<String>,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            retained_revisions: 10_000,
            retained_bytes: 128 << 20,
            collect_garbage: true,
            end_namespaces: true,
            remove_at_once: true,
            played_components: Vec::new(),
            gather_roles: true,
            serve_storage_migrations: false,
            migrate_storage: true,
            count_quotas: true,
            furnish_namespaces: false,
            track_managed_fields: true,
            authorization: Authorization::default(),
            tokens: TokenOptions::default(),
            service_cluster_ip_range: None,
        }
    }
}

/// The state of the server, with its verbs, such as create. Synchronous: the caller holds a lock around the registry,
/// and passes the wall time to each verb.
///
/// A verb either fails with a [`Status`](steersman_apimachinery::status::Status) and changes nothing, or has stored all
/// of its changes when it returns (SRV-REG-1).
#[derive(Debug)]
pub struct Registry {
    pub(crate) options: RegistryOptions,
    /// The wall time of the verb that runs, as the verb's caller passed it.
    pub(crate) now: Timestamp,
    pub(crate) rng: Rng,
    pub(crate) store: Store,
    pub(crate) catalogue: Catalogue,
    pub(crate) claimed_names: ClaimedNames,
    /// For the uid of each owner, the storage, namespace and name of its dependents.
    pub(crate) dependents: HashMap<String, BTreeSet<Address>>,
    /// Removed objects that the garbage collector and other controllers have not processed yet.
    pub(crate) removed: VecDeque<(StorageKey, Arc<Stored>)>,
    pub(crate) pending: PendingWork,
    pub(crate) service_network: ServiceNetwork,
    /// The last address that was assigned to a Service, as its offset from the start of the service network.
    pub(crate) last_address: u32,
    pub(crate) last_node_port: i64,
    changed: BTreeSet<StorageKey>,
    pub(crate) presence: Presence,
    pub(crate) compiled: RefCell<Compiled>,
    /// The webhook responses and the warnings of the verb that runs. In a cell, because reads (`&self`) change them.
    pub(crate) verb_state: RefCell<VerbState>,
    /// The Secrets with a ServiceAccount token that was used on a day that is not in their label for the last use.
    pub(crate) used_secrets: RefCell<BTreeSet<SecretName>>,
    /// The oldest revision from which a watch may resume; a watch from an older revision gets 410.
    pub(crate) forgotten: u64,
    /// The certificate of the authority that signed the server's certificate, in PEM; `None` until the server listens.
    pub(crate) authority: Option<String>,
    /// The address at which the server listens; `None` until the server listens.
    pub(crate) listens: Option<SocketAddr>,
    pub(crate) tokens: Tokens,
    pub(crate) issuer: TokenIssuer,
    /// The number of the last transaction. Each turn of the registry's lock that changes something is a transaction.
    pub(crate) transactions: u64,
    /// The state after the last transaction, to compute the next transaction; `None` if the server has no log.
    pub(crate) recorder: Option<Recorder>,
    /// The newest revision that the write-ahead log holds. Watches do not see later revisions (WAL-1).
    pub(crate) visible: u64,
    option_problem: Option<OptionError>,
}

impl Registry {
    /// Creates a registry with the built-in kinds and the four initial namespaces. If an option is invalid,
    /// [`option_problem`](Self::option_problem) returns the error.
    #[must_use]
    pub fn new(options: RegistryOptions, now: Timestamp) -> Self {
        let issuer = TokenIssuer::new(&options.tokens, token_secret(options.seed));
        let range = options.service_cluster_ip_range.as_deref();
        let network = range.map_or_else(|| Ok(ServiceNetwork::default()), ServiceNetwork::parse);
        let problem = issuer.problem().or(network.as_ref().err()).cloned();
        let mut new = Self {
            now,
            rng: Rng::new(options.seed),
            store: Store::new(options.retained_revisions, options.retained_bytes),
            catalogue: Catalogue::new(|resource| {
                let version = (resource.group.as_str(), resource.version.as_str());
                options.serve_storage_migrations && version == STORAGE_MIGRATION
            }),
            claimed_names: ClaimedNames::default(),
            dependents: HashMap::new(),
            removed: VecDeque::new(),
            pending: PendingWork::default(),
            service_network: network.unwrap_or_default(),
            last_address: 0,
            last_node_port: 0,
            changed: BTreeSet::new(),
            presence: Presence::default(),
            compiled: RefCell::default(),
            verb_state: RefCell::default(),
            used_secrets: RefCell::default(),
            forgotten: 0,
            authority: None,
            listens: None,
            tokens: Tokens::default(),
            issuer,
            transactions: 0,
            recorder: None,
            visible: u64::MAX,
            option_problem: problem,
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

    /// Returns the error of an invalid option, with which the server does not listen; `None` if all options are valid.
    pub fn option_problem(&self) -> Option<&OptionError> {
        self.option_problem.as_ref()
    }

    /// Returns the OpenID Connect discovery document of the issuer of ServiceAccount tokens; `None` if the issuer's URL
    /// cannot have such a document.
    pub fn issuer_metadata(&self) -> Option<Value> {
        let base = self
            .listens
            .map(|address| format!("https://{}", reachable_address(address)));
        self.issuer.metadata(base.as_deref())
    }

    /// Returns whether the issuer of ServiceAccount tokens has an OpenID Connect discovery document.
    pub fn has_issuer(&self) -> bool {
        self.issuer.has_metadata()
    }

    /// Returns the public keys by which ServiceAccount tokens are verified, as a JSON Web Key Set.
    pub fn issuer_keys(&self) -> Value {
        self.issuer.key_set()
    }

    /// Returns an authorizer that decides by the roles and bindings in the store.
    pub fn authorizer(&self) -> Authorizer<'_> {
        Authorizer::new(self.options.authorization, &self.store)
    }

    /// Returns the served resources, one entry per version. Their groups are in the order of the discovery documents.
    pub fn resources(&self) -> &[Arc<Resource>] {
        &self.catalogue.all
    }

    /// Returns a number that increases with each change of [`Registry::resources`], for caches of discovery documents.
    pub fn catalogue_version(&self) -> u64 {
        self.catalogue.version
    }

    /// Returns the resource with this group, version and plural name; `None` if the server does not serve it.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.catalogue.find(group, version, plural).map(Arc::clone)
    }

    /// Returns the number of stored objects per group and plural name; kinds without objects are left out.
    pub fn object_counts(&self) -> BTreeMap<(&str, &str), usize> {
        let mut counts = BTreeMap::new();
        // Several versions of a resource share one storage; its objects must be counted once, not once per version.
        let mut seen = HashSet::new();
        for resource in &self.catalogue.all {
            let count = self.store.count(&resource.storage);
            if count > 0 && seen.insert(&resource.storage) {
                counts.insert((resource.group.as_str(), resource.plural.as_str()), count);
            }
        }
        counts
    }

    /// Returns the store of objects, for reads by parts of the server such as the simulator.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the objects of one kind with an owner reference to this uid, sorted by namespace and name.
    pub fn dependents_in(&self, storage: &StorageKey, uid: &str) -> Vec<Arc<Stored>> {
        let known = self.dependents.get(uid).into_iter().flatten();
        known
            .filter(|(at, _, _)| at == storage)
            .filter_map(|(at, namespace, name)| self.store.get(at, namespace, name))
            .cloned()
            .collect()
    }

    /// Returns the revision that is `ago` revisions older than the newest revision, or the oldest revision that was not
    /// compacted, if this is later.
    pub fn past_revision(&self, ago: u64) -> u64 {
        let past = self.store.revision().saturating_sub(ago);
        past.max(self.store.compacted()).max(1)
    }

    /// Returns the newest revision of the store, which is the revision of the last write or deletion.
    pub fn revision(&self) -> u64 {
        self.store.revision()
    }

    /// Returns the storages that changed since the last call. Call this after every verb that writes, with the
    /// registry's lock held; then unlock the registry, and wake the watches of the returned storages.
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

    /// Returns the work that the writes since the last call left over, such as freeing old objects. Call this after
    /// every verb that writes, with the registry's lock held; do the work after unlocking.
    pub fn take_after_writes(&mut self) -> AfterWrites {
        self.store.take_after_writes()
    }

    /// Compacts all past revisions: a watch or list that resumes from a past revision gets 410, even if no object of
    /// its kind changed. Open watches miss nothing (SRV-STORE-4).
    pub fn compact(&mut self) {
        self.store.compact(self.store.revision());
        self.forgotten = self.store.revision();
    }

    /// Returns the stored object of the kind with this group and plural name; `None` if it does not exist.
    pub(crate) fn object(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Option<&Arc<Stored>> {
        self.store
            .get(&StorageKey::new(group, plural), namespace, name)
    }

    pub(crate) fn existing(
        &self,
        (group, plural): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<&Arc<Stored>, Status> {
        let found = self.object((group, plural), namespace, name);
        found.ok_or_else(|| Status::not_found(GroupResource::new(group, plural), name))
    }

    /// Returns the stored object that a request names; 404 if it does not exist.
    pub(crate) fn target(&self, target: ObjectTarget<'_>) -> Result<&Arc<Stored>, Status> {
        let ObjectTarget { resource, name, .. } = target;
        let found = self.store.get(&resource.storage, target.scope(), name);
        found.ok_or_else(|| Status::not_found(resource.group_resource(), name))
    }

    pub(crate) fn objects<'a>(
        &'a self,
        (group, plural): (&str, &str),
        namespace: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<Stored>> + use<'a> {
        self.store.list(&StorageKey::new(group, plural), namespace)
    }

    /// Marks a storage as changed, so that its watches are woken, and the policies or webhooks in it are read again.
    pub(crate) fn touch(&mut self, storage: &StorageKey) {
        self.presence.notice(&self.store, storage);
        self.changed.insert(storage.clone());
    }

    /// Stores an object at the next revision. Controllers such as the garbage collector run only in `settle`.
    pub(crate) fn put(
        &mut self,
        storage: &StorageKey,
        namespace: &str,
        name: &str,
        object: impl Into<Draft>,
    ) -> Arc<Stored> {
        let draft = object.into();
        let old = self.store.get(storage, namespace, name).map(Arc::clone);
        let collected = self.options.collect_garbage;
        let change = collected.then(|| OwnershipChange::between(old.as_deref(), &draft.value));
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
        self.note_addresses(storage, old.as_deref(), Some(&stored));
        self.touch(storage);
        self.note_usage(storage, old.as_ref(), Some(&stored));
        stored
    }

    pub(crate) fn link(&mut self, storage: &StorageKey, stored: &Stored) {
        for owner in stored.owners() {
            let dependents = self.dependents.entry(owner.to_owned()).or_default();
            dependents.insert(address(storage, stored));
        }
    }

    /// Removes an object at the next revision. Controllers such as the garbage collector run only in `settle`.
    pub(crate) fn remove(&mut self, storage: &StorageKey, old: &Stored) -> Option<Arc<Stored>> {
        self.unlink(storage, old);
        let gone = self.store.delete(storage, &old.namespace, &old.name)?;
        self.removed.push_back((storage.clone(), Arc::clone(&gone)));
        self.note_addresses(storage, Some(&gone), None);
        self.touch(storage);
        self.note_usage(storage, Some(&gone), None);
        Some(gone)
    }

    pub(crate) fn unlink(&mut self, storage: &StorageKey, old: &Stored) {
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

    pub(super) fn counters(&self) -> Counters {
        Counters {
            random: self.rng.state(),
            addresses: self.last_address,
            node_ports: self.last_node_port,
        }
    }

    pub(super) fn set_counters(&mut self, counters: Counters) {
        self.rng = Rng::new(counters.random);
        self.last_address = counters.addresses;
        self.last_node_port = counters.node_ports;
    }

    /// Builds the result of a verb from an object that is not in the store, such as the result of a dry run.
    pub(crate) fn answer(
        namespace: &str,
        name: &str,
        object: impl Into<Draft>,
        revision: u64,
    ) -> VersionedObject {
        VersionedObject {
            stored: Arc::new(Stored::new(namespace.into(), name.into(), object, revision)),
        }
    }
}

/// Returns the address at which this machine can connect to a listener: loopback if the listener is bound to the
/// unspecified address (`0.0.0.0` or `::`).
pub fn reachable_address(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

pub(crate) fn cluster_roles() -> StorageKey {
    StorageKey::new("rbac.authorization.k8s.io", "clusterroles")
}

/// Returns the key that signs tokens. It follows from the seed, so tokens stay valid after a restart with that seed.
fn token_secret(seed: u64) -> TokenSecret {
    let mut rng = Rng::new(seed ^ 0x0074_6f6b_656e_7321);
    let mut bytes = [0; 32];
    for part in bytes.chunks_exact_mut(8) {
        part.copy_from_slice(&rng.draw().to_be_bytes());
    }
    TokenSecret::new(bytes)
}

pub(crate) fn address(storage: &StorageKey, stored: &Stored) -> Address {
    let (namespace, name) = (Arc::clone(&stored.namespace), Arc::clone(&stored.name));
    (storage.clone(), namespace, name)
}
