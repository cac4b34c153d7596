//! Machine: what the controllers that act within requests still have to do, such as the garbage collector and the
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

/// The namespace and the name of a Secret with a ServiceAccount token.
pub(crate) type SecretName = (Arc<str>, Arc<str>);

/// An address, with the namespace and name of the Service that has it or had it.
pub(crate) type ServiceAddress = (IpAddr, Arc<str>, Arc<str>);

/// The finalizer of an owner that is removed once its dependents have no reference to it (`Orphan`).
pub(crate) const ORPHAN: &str = "orphan";
/// The finalizer of an owner that is removed once its dependents are deleted (`Foreground`).
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    Background,
    Foreground,
    Orphan,
}

/// A write or a deletion that changes how much of a quota is used: the object before and after.
#[derive(Debug)]
pub(crate) struct QuotaTally {
    pub(crate) storage: StorageKey,
    pub(crate) old: Option<Arc<Stored>>,
    pub(crate) new: Option<Arc<Stored>>,
}

/// What the controllers that act within requests still have to do, without duplicates.
#[derive(Debug, Default)]
pub(crate) struct PendingWork {
    objects: VecDeque<Address>,
    known: HashSet<Address>,
    pub(crate) namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that may lack their ServiceAccount `default` or their ConfigMap with the server's certificate.
    pub(crate) lacking: BTreeSet<Arc<str>>,
    /// The names of deleted CRDs with objects that are still to be deleted.
    pub(crate) definitions: BTreeSet<Arc<str>>,
    /// The names of deleted namespaces that stay as they are until the next call of
    /// [`Registry::remove_marked`](crate::Registry::remove_marked).
    pub(crate) marked_namespaces: BTreeSet<Arc<str>>,
    /// Whether a version of a custom resource may have been added or removed, so that its APIService must be.
    pub(crate) versions: bool,
    /// Writes and deletions that the usage in the status of quotas does not contain yet.
    pub(crate) tallies: Vec<QuotaTally>,
    /// Addresses that Services got or lost, with IPAddress objects that are still to be created or deleted.
    pub(crate) addresses: Vec<ServiceAddress>,
    /// Owners that were just removed: the uid and the namespace of each.
    pub(crate) gone: HashMap<String, Arc<str>>,
}

impl PendingWork {
    /// Has the garbage collector look at an object; twice the same counts once.
    pub(crate) fn object(&mut self, address: Address) {
        if self.known.insert(address.clone()) {
            self.objects.push_back(address);
        }
    }

    /// Has the namespace controller look at a namespace, unless it is left to
    /// [`Registry::remove_marked`](crate::Registry::remove_marked).
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

/// What a write changed in an object's owner references and deletion, as far as the garbage collector must act.
#[derive(Debug, Default)]
pub(crate) struct OwnershipChange {
    /// Whether owner references are new or changed.
    pub(crate) owners: bool,
    /// Owner references that were removed, or no longer have `blockOwnerDeletion`.
    pub(crate) freed: Vec<Value>,
    /// Whether a delete with the policy `Orphan` begins.
    pub(crate) orphans: bool,
    /// Whether a delete with the policy `Foreground` begins.
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

/// Returns whether an object is being deleted and has this finalizer.
pub(crate) fn waits_for(object: &Value, finalizer: &str) -> bool {
    let fields = &object["metadata"];
    fields["deletionTimestamp"].is_string() && has_text(&fields["finalizers"], finalizer)
}
