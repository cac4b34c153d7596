//! Machine: the garbage collector, which deletes the dependents of a deleted owner, removes their owner references, or
//! keeps the owner until they are deleted.

use std::sync::Arc;

use serde_json::Value;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_store::{Draft, Stored};

use crate::requests::metadata;
use crate::state::pending_work::{
    Address, FOREGROUND, ORPHAN, PropagationPolicy, blocks, references, waits_for,
};
use crate::state::registry::Registry;
use crate::values::{has_text, text};
use crate::verbs::deletion::may_go;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OwnerState {
    /// The owner exists, so its dependent is kept.
    Solid,
    /// No object with the uid in the owner reference exists, so the dependent may be deleted.
    Dangling,
    /// The owner is deleted with `Foreground`, and stays until the dependent is deleted.
    Waiting,
    /// The owner's kind is not served, so the owner may exist or not. The dependent is kept.
    Unknown,
}

impl Registry {
    /// Processes an object in the queue of the collector: deletes it if all its owners are gone. Orphans the dependents
    /// of a deleted owner, or waits for their deletion (`attemptToDeleteItem`, `attemptToOrphanWorker`).
    pub(crate) fn attempt_collection(&mut self, at: &Address) {
        let (storage, namespace, name) = at;
        let Some(found) = self.store.get(storage, namespace, name).cloned() else {
            return;
        };
        let Some(resource) = self.catalogue.of_storage(storage).cloned() else {
            return;
        };
        let object = found.look();
        if found.is_terminating() {
            if waits_for(&object, ORPHAN) {
                self.orphan_dependents(found.meta("uid"));
                self.let_go(storage, &found, ORPHAN);
            } else if waits_for(&object, FOREGROUND) {
                self.await_dependents(storage, &found);
            }
            return;
        }
        let mut lost = Vec::new();
        let (mut solid, mut waiting) = (false, false);
        for reference in references(&object) {
            match self.owner_state(&resource, &found, reference) {
                // It is unknown whether this owner exists, so the object must not be deleted (SRV-GC-1).
                OwnerState::Unknown => return,
                OwnerState::Solid => solid = true,
                OwnerState::Dangling => lost.push(uid_of(reference)),
                OwnerState::Waiting => {
                    waiting = true;
                    lost.push(uid_of(reference));
                }
            }
        }
        if solid {
            self.drop_references(storage, &found, &lost);
        } else if waiting && self.dependents.contains_key(found.meta("uid")) {
            let found = self.break_circle(storage, &found);
            self.begin_delete(&resource, &found, None, Some(PropagationPolicy::Foreground));
        } else if !lost.is_empty() {
            let finalizers = &object["metadata"]["finalizers"];
            let policy = if has_text(finalizers, ORPHAN) {
                PropagationPolicy::Orphan
            } else if has_text(finalizers, FOREGROUND) {
                PropagationPolicy::Foreground
            } else {
                PropagationPolicy::Background
            };
            self.begin_delete(&resource, &found, None, Some(policy));
        }
    }

    fn owner_state(&self, resource: &Resource, object: &Stored, reference: &Value) -> OwnerState {
        // An owner in `gone` was removed by the same `settle`. Its kind may no longer be served, because its CRD was
        // removed as well, so it could not be looked up below.
        let gone = self.pending.gone.get(text(&reference["uid"]));
        if gone.is_some_and(|at| at.is_empty() || *at == object.namespace) {
            return OwnerState::Dangling;
        }
        let (version, kind) = (text(&reference["apiVersion"]), text(&reference["kind"]));
        let Some(known) = self.catalogue.of_kind(version, kind) else {
            return OwnerState::Unknown;
        };
        if known.namespaced && !resource.namespaced {
            return OwnerState::Unknown;
        }
        match self.owner(reference, &object.namespace) {
            None => OwnerState::Dangling,
            Some((_, owner)) if owner.is_terminating() && waits_for(&owner.look(), FOREGROUND) => {
                OwnerState::Waiting
            }
            Some(_) => OwnerState::Solid,
        }
    }

    /// Returns the resource and the object that an owner reference names by name and uid; `None` if it does not exist.
    pub(crate) fn owner(
        &self,
        reference: &Value,
        namespace: &str,
    ) -> Option<(Arc<Resource>, Arc<Stored>)> {
        let (version, kind) = (text(&reference["apiVersion"]), text(&reference["kind"]));
        let (group, _) = version.split_once('/').unwrap_or_default();
        let mut all = self.catalogue.all.iter();
        let resource = all.find(|known| known.group == group && known.kind == kind)?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let name = text(&reference["name"]);
        let found = self.store.get(&resource.storage, namespace, name)?;
        let same = found.meta("uid") == text(&reference["uid"]);
        same.then(|| (Arc::clone(resource), Arc::clone(found)))
    }

    pub(crate) fn dependents_of(&self, uid: &str) -> Vec<Address> {
        let known = self.dependents.get(uid).into_iter().flatten();
        known.cloned().collect()
    }

    fn orphan_dependents(&mut self, uid: &str) {
        for (storage, namespace, name) in self.dependents_of(uid) {
            if let Some(found) = self.store.get(&storage, &namespace, &name).cloned() {
                self.drop_references(&storage, &found, &[uid.to_owned()]);
            }
        }
    }

    /// Removes a deleted owner with the finalizer `foregroundDeletion`, if no dependent has an owner reference with
    /// `blockOwnerDeletion` to the owner any more; otherwise queues these dependents, to delete them.
    fn await_dependents(&mut self, storage: &StorageKey, owner: &Arc<Stored>) {
        let uid = owner.meta("uid");
        let mut held = false;
        for (storage, namespace, name) in self.dependents_of(uid) {
            let Some(found) = self.store.get(&storage, &namespace, &name) else {
                continue;
            };
            let object = found.look();
            let mut all = references(&object).iter();
            if all.any(|one| one["uid"] == *uid && blocks(one)) {
                held = true;
                if !waits_for(&object, FOREGROUND) {
                    self.pending.object((storage, namespace, name));
                }
            }
        }
        if !held {
            self.let_go(storage, owner, FOREGROUND);
        }
    }

    /// Prevents that objects which own each other wait for each other's deletion forever. If a dependent of `found` is
    /// itself waiting for its dependents, sets `blockOwnerDeletion` to false in the owner references of `found`.
    fn break_circle(&mut self, storage: &StorageKey, found: &Arc<Stored>) -> Arc<Stored> {
        let mut dependents = self.dependents_of(found.meta("uid")).into_iter();
        let circle = dependents.any(|(storage, namespace, name)| {
            let dependent = self.store.get(&storage, &namespace, &name);
            dependent.is_some_and(|one| waits_for(&one.look(), FOREGROUND))
        });
        if !circle || !references(&found.look()).iter().any(blocks) {
            return Arc::clone(found);
        }
        let mut draft = found.draft();
        let owners = draft.value["metadata"]["ownerReferences"].as_array_mut();
        for owner in owners.into_iter().flatten().filter(|one| blocks(one)) {
            owner["blockOwnerDeletion"] = false.into();
        }
        self.put_changed(storage, found, draft)
    }

    fn drop_references(&mut self, storage: &StorageKey, found: &Stored, uids: &[String]) {
        if uids.is_empty() {
            return;
        }
        let mut draft = found.draft();
        let is_kept = |owner: &Value| !uids.contains(&uid_of(owner));
        metadata::retain_items(&mut draft.value, "ownerReferences", is_kept);
        self.put_changed(storage, found, draft);
    }

    /// Stores an object that the garbage collector has changed. Converts it to the storage version of its kind first.
    fn put_changed(&mut self, storage: &StorageKey, found: &Stored, draft: Draft) -> Arc<Stored> {
        let draft = self.in_storage_version(storage, draft);
        self.put(storage, &found.namespace, &found.name, draft)
    }

    /// Removes a finalizer from a deleted object, and the object if no other finalizer or grace period keeps it.
    fn let_go(&mut self, storage: &StorageKey, found: &Arc<Stored>, finalizer: &str) {
        let mut draft = found.draft();
        metadata::retain_items(&mut draft.value, "finalizers", |one| one != finalizer);
        if may_go(&draft.value) {
            self.remove(storage, found);
        } else {
            self.put_changed(storage, found, draft);
        }
    }
}

fn uid_of(reference: &Value) -> String {
    text(&reference["uid"]).to_owned()
}
