//! Machine: the pending work of the controllers that run inside a write request, such as the garbage collector.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::requests::metadata;
use crate::values::{has_text, items};

pub(crate) type Address = (StorageKey, Arc<str>, Arc<str>);

/// The namespace and the name of a Secret with a ServiceAccount token.
pub(crate) type SecretName = (Arc<str>, Arc<str>);

/// The IP address of a Service, with the namespace and name of the Service that has or had this IP address.
pub(crate) type ServiceAddress = (IpAddr, Arc<str>, Arc<str>);

/// The finalizer that keeps a deleted owner until no dependent has a reference to the owner (policy `Orphan`).
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer that keeps a deleted owner until its dependents are deleted (policy `Foreground`).
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

/// A write or deletion that changes the usage of a ResourceQuota: the object before (`old`) and after it (`new`).
#[derive(Debug)]
pub(crate) struct QuotaTally {
    pub(crate) storage: StorageKey,
    pub(crate) old: Option<Arc<Stored>>,
    pub(crate) new: Option<Arc<Stored>>,
}

/// The queues of work that a write leaves to the garbage collector, the namespace controller, the quota controller
/// and other controllers. `Registry::settle` processes them within the same request.
#[derive(Debug, Default)]
pub(crate) struct PendingWork {
    objects: VecDeque<Address>,
    known: HashSet<Address>,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// Names of namespaces that may lack their ServiceAccount `default` or their ConfigMap `kube-root-ca.crt`.
    pub(crate) lacking: BTreeSet<Arc<str>>,
    /// The names of CRDs that were deleted, and stay until all of their custom resources are deleted.
    pub(crate) definitions: BTreeSet<Arc<str>>,
    /// The names of deleted namespaces with objects that are not deleted before the next call of
    /// [`Registry::remove_marked`](crate::Registry::remove_marked).
    pub(crate) marked_namespaces: BTreeSet<Arc<str>>,
    /// Whether a CRD may have added or removed a version, so that the APIService of this version must be added or
    /// removed.
    pub(crate) versions: bool,
    /// Writes and deletions that are not yet counted in the status of the ResourceQuotas.
    pub(crate) tallies: Vec<QuotaTally>,
    /// IP addresses that Services got or lost. For each, an IPAddress object is still to be created or deleted.
    pub(crate) addresses: Vec<ServiceAddress>,
    /// Removed owners that had dependents: the uid of each, with its namespace. An owner cannot be looked up if its CRD
    /// is removed as well. Emptied when all work is done.
    pub(crate) gone: HashMap<String, Arc<str>>,
}

impl PendingWork {
    /// Queues an object for the garbage collector, unless the object is already in the queue.
    pub(crate) fn object(&mut self, address: Address) {
        if self.known.insert(address.clone()) {
            self.objects.push_back(address);
        }
    }

    /// Queues a namespace for the namespace controller, unless a later call of
    /// [`Registry::remove_marked`](crate::Registry::remove_marked) removes the namespace.
    pub(crate) fn namespace(&mut self, name: &Arc<str>) {
        if !self.marked_namespaces.contains(name) {
            self.namespaces.insert(Arc::clone(name));
        }
    }

    pub(crate) fn next_object(&mut self) -> Option<Address> {
        let next = self.objects.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }
}

/// The changes of a write for which the garbage collector must act: of owner references, and the start of a deletion.
#[derive(Debug, Default)]
pub(crate) struct OwnershipChange {
    /// Whether the object has owner references, and they differ from those before the write.
    pub(crate) owners: bool,
    /// The owner references with `blockOwnerDeletion` that were removed or lost this field: they no longer hold up the
    /// deletion of the owner.
    pub(crate) freed: Vec<Value>,
    /// Whether the write begins a deletion with the policy `Orphan`.
    pub(crate) orphans: bool,
    /// Whether the write begins a deletion with the policy `Foreground`.
    pub(crate) foreground: bool,
}

impl OwnershipChange {
    pub(crate) fn between(old: Option<&Stored>, new: &Value) -> Self {
        let new_owners = references(new);
        let owned_before = old.is_some_and(|old| old.owners().next().is_some());
        let terminating = !metadata::text(new, "deletionTimestamp").is_empty();
        if new_owners.is_empty() && !owned_before && !terminating {
            return Self::default();
        }
        let old = old.map(Stored::look);
        let old_owners = old.as_deref().map(references).unwrap_or_default();
        let freed = |owner: &&Value| {
            let mut kept = new_owners.iter().filter(|new| new["uid"] == owner["uid"]);
            blocks(owner) && !kept.any(blocks)
        };
        let begins = |finalizer: &str| {
            let waits = |object: &Value| waits_for(object, finalizer);
            waits(new) && !old.as_deref().is_some_and(waits)
        };
        Self {
            owners: !new_owners.is_empty() && new_owners != old_owners,
            freed: old_owners.iter().filter(freed).cloned().collect(),
            orphans: begins(ORPHAN),
            foreground: begins(FOREGROUND),
        }
    }
}

pub(crate) fn references(object: &Value) -> &[Value] {
    items(&object["metadata"]["ownerReferences"])
}

pub(crate) fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}

/// Returns whether an object has a `deletionTimestamp` and this finalizer, so that it waits for this finalizer.
pub(crate) fn waits_for(object: &Value, finalizer: &str) -> bool {
    let fields = &object["metadata"];
    fields["deletionTimestamp"].is_string() && has_text(&fields["finalizers"], finalizer)
}
