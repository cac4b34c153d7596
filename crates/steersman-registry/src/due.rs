//! Machine: what the played garbage collector and namespace controller still have to look at.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use serde_json::Value;
use steersman_schema::resource::StorageKey;

use crate::store::Stored;

use super::metadata;

/// The address of a stored object.
pub(super) type Address = (StorageKey, Arc<str>, Arc<str>);

/// The finalizer of an owner whose dependents are set free before it goes.
pub(super) const ORPHAN: &str = "orphan";
/// The finalizer of an owner whose dependents go before it.
pub(super) const FOREGROUND: &str = "foregroundDeletion";

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Policy {
    Background,
    Foreground,
    Orphan,
}

/// A write or a removal by which the objects of a namespace use more or less than before.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) storage: StorageKey,
    pub(super) old: Option<Arc<Stored>>,
    pub(super) new: Option<Arc<Stored>>,
}

/// Work that a write or a removal has made, each piece once.
#[derive(Debug, Default)]
pub(super) struct Due {
    objects: VecDeque<Address>,
    known: HashSet<Address>,
    namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that may lack what every one has.
    lacking: BTreeSet<Arc<str>>,
    /// Whether versions of custom resources may have come or gone.
    pub(super) versions: bool,
    /// What the quotas of namespaces have not counted yet.
    pub(super) tallies: Vec<Tally>,
    /// Owners whose removal is being settled, by uid, with their namespaces.
    pub(super) gone: HashMap<String, Arc<str>>,
}

impl Due {
    /// Has an object looked at by the garbage collector.
    pub(super) fn object(&mut self, address: Address) {
        if self.known.insert(address.clone()) {
            self.objects.push_back(address);
        }
    }

    /// Has a namespace looked at by its controller.
    pub(super) fn namespace(&mut self, name: &Arc<str>) {
        self.namespaces.insert(Arc::clone(name));
    }

    /// Has a namespace given what it lacks.
    pub(super) fn furnish(&mut self, namespace: &str) {
        self.lacking.insert(namespace.into());
    }

    pub(super) fn next_lacking(&mut self) -> Option<Arc<str>> {
        self.lacking.pop_first()
    }

    pub(super) fn next_object(&mut self) -> Option<Address> {
        let next = self.objects.pop_front()?;
        self.known.remove(&next);
        Some(next)
    }

    pub(super) fn next_namespace(&mut self) -> Option<Arc<str>> {
        self.namespaces.pop_first()
    }
}

/// What a write means to the garbage collector.
#[derive(Debug, Default)]
pub(super) struct Change {
    /// The object has owners that it did not have like that before.
    pub(super) owners: bool,
    /// References that are gone, or hold up their owner no more.
    pub(super) freed: Vec<Value>,
    /// A delete began that sets dependents free.
    pub(super) orphans: bool,
    /// A delete began that waits for dependents.
    pub(super) foreground: bool,
}

impl Change {
    /// What is different in `new`.
    pub(super) fn between(old: Option<&Stored>, new: &Value) -> Self {
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

/// The owner references of an object.
pub(super) fn references(object: &Value) -> &[Value] {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners.map(Vec::as_slice).unwrap_or_default()
}

/// Whether an owner that goes in the foreground waits for whoever has this reference to it.
pub(super) fn blocks(reference: &Value) -> bool {
    reference["blockOwnerDeletion"] == true
}

/// Whether an object is terminating and held by that finalizer.
pub(super) fn waits_for(object: &Value, finalizer: &str) -> bool {
    let fields = &object["metadata"];
    let mut finalizers = fields["finalizers"].as_array().into_iter().flatten();
    fields["deletionTimestamp"].is_string() && finalizers.any(|one| one == finalizer)
}
