//! Machine: the pending work of the controllers that act within requests, such as the garbage collector and the
//! namespace controller.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use serde_json::Value;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::requests::metadata;
use crate::values::{has_text, items};

pub(crate) type Address = (StorageKey, Arc<str>, Arc<str>);

/// The namespace and the name of a Secret.
pub(crate) type SecretName = (Arc<str>, Arc<str>);

/// An address of a Service, with the namespace and name of the Service that has or had it.
pub(crate) type ServiceAddress = (IpAddr, Arc<str>, Arc<str>);

/// The finalizer of an owner that is removed after its dependents were orphaned.
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an owner that is removed after its dependents were deleted.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

/// A write or a deletion of an object that changes the usage of a quota.
#[derive(Debug)]
pub(crate) struct QuotaTally {
    pub(crate) storage: StorageKey,
    pub(crate) old: Option<Arc<Stored>>,
    pub(crate) new: Option<Arc<Stored>>,
}

/// The pending work of the controllers that act within requests, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct PendingWork {
    objects: VecDeque<Address>,
    known: HashSet<Address>,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that may lack their ServiceAccount or their ConfigMap with the certificate of the server.
    pub(crate) lacking: BTreeSet<Arc<str>>,
    /// The names of terminating definitions with objects that are still to be deleted.
    pub(crate) definitions: BTreeSet<Arc<str>>,
    /// The names of deleted namespaces that the namespace controller does not touch before
    /// [`Registry::remove_marked`](crate::Registry::remove_marked).
    pub(crate) marked_namespaces: BTreeSet<Arc<str>>,
    /// Whether versions of custom resources may have been added or removed.
    pub(crate) versions: bool,
    /// Changes of usage that are not yet in the status of quotas.
    pub(crate) tallies: Vec<QuotaTally>,
    /// Addresses that Services got or lost.
    pub(crate) addresses: Vec<ServiceAddress>,
    /// Owners that are being removed: the uid of each, with its namespace.
    pub(crate) gone: HashMap<String, Arc<str>>,
}

impl PendingWork {
    /// Schedules a look of the garbage collector at an object.
    pub(crate) fn object(&mut self, address: Address) {
        if self.known.insert(address.clone()) {
            self.objects.push_back(address);
        }
    }

    /// Schedules a look of the namespace controller at a namespace, unless
    /// [`Registry::remove_marked`](crate::Registry::remove_marked) empties it later.
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

/// The change of owner references and deletion state in a write, on which the garbage collector acts.
#[derive(Debug, Default)]
pub(crate) struct OwnershipChange {
    /// Whether the object has new or changed owner references.
    pub(crate) owners: bool,
    /// Owner references that the write removed, or that no longer block the deletion of their owner.
    pub(crate) freed: Vec<Value>,
    /// Whether the write began a delete that orphans the dependents of the object.
    pub(crate) orphans: bool,
    /// Whether the write began a delete that waits for the dependents of the object.
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

/// Returns whether an object is terminating and has this finalizer.
pub(crate) fn waits_for(object: &Value, finalizer: &str) -> bool {
    let fields = &object["metadata"];
    fields["deletionTimestamp"].is_string() && has_text(&fields["finalizers"], finalizer)
}
