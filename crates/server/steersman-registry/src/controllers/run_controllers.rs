//! Machine: runs controllers such as the garbage collector inside the requests that write or delete objects.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::state::pending_work::OwnershipChange;
use crate::state::registry::{Registry, address};

impl Registry {
    /// Queues the objects that the garbage collector has to process after a write.
    pub(crate) fn note_change(
        &mut self,
        storage: &StorageKey,
        change: &OwnershipChange,
        new: &Arc<Stored>,
    ) {
        if change.owners || change.orphans {
            self.pending.object(address(storage, new));
        }
        for reference in &change.freed {
            self.note_owner(reference, &new.namespace);
        }
        if change.foreground {
            for dependent in self.dependents_of(new.meta("uid")) {
                self.pending.object(dependent);
            }
            self.pending.object(address(storage, new));
        }
    }

    /// Queues the owner in an owner reference for the garbage collector: the owner may have waited for the deletion of
    /// the dependent with this reference.
    fn note_owner(&mut self, reference: &Value, namespace: &str) {
        if let Some((resource, found)) = self.owner(reference, namespace) {
            self.pending.object(address(&resource.storage, &found));
        }
    }

    pub(crate) fn note_namespace(&mut self, storage: &StorageKey, new: &Stored) {
        let name = match storage.as_str() {
            "namespaces." => &new.name,
            _ => &new.namespace,
        };
        let found = self.object(("", "namespaces"), "", name);
        if found.is_some_and(|found| found.is_terminating()) {
            self.pending.namespace(name);
        }
    }

    /// Returns whether deleted CRDs and namespaces are removed within the request (`remove_at_once`).
    pub fn removes_at_once(&self) -> bool {
        self.options.remove_at_once
    }

    /// Returns whether CRDs or namespaces are marked as deleted, so that [`remove_marked`](Self::remove_marked) must be
    /// called.
    pub fn has_marked(&self) -> bool {
        !self.pending.definitions.is_empty() || !self.pending.marked_namespaces.is_empty()
    }

    /// Deletes the objects of deleted CRDs and the objects in deleted namespaces, and removes those CRDs and namespaces
    /// that have no objects left. An object with a finalizer stays, and keeps its CRD or namespace until the object is
    /// removed.
    pub fn remove_marked(&mut self, now: Timestamp) {
        self.now = now;
        self.clear_definitions();
        let pending = &mut self.pending;
        pending.namespaces.append(&mut pending.marked_namespaces);
        self.settle();
    }

    /// Runs the controllers until no work is pending, including the work that their own writes cause. This is a loop
    /// and no recursion, because a chain of owners can have any length (SRV-GC-2).
    pub(crate) fn settle(&mut self) {
        loop {
            if let Some((storage, gone)) = self.removed.pop_front() {
                self.finish_definition(&storage);
                if self.options.collect_garbage {
                    self.note_removal(&gone);
                }
                if self.options.end_namespaces {
                    self.note_namespace(&storage, &gone);
                }
                self.note_lack(&storage, &gone);
            } else if let Some(next) = self.pending.next_object() {
                self.attempt_collection(&next);
            } else if let Some(name) = self.pending.namespaces.pop_first() {
                self.empty_namespace(&name);
            } else if let Some(noted) = self.pending.addresses.pop() {
                self.settle_address(&noted);
            } else if let Some(name) = self.pending.lacking.pop_first() {
                self.furnish_namespace(&name);
            } else if std::mem::take(&mut self.pending.versions) {
                self.register_versions();
            } else if !self.pending.tallies.is_empty() {
                self.settle_quotas();
            } else {
                break;
            }
        }
        self.pending.gone.clear();
    }

    /// Queues the owners and the dependents of a removed object for the garbage collector.
    fn note_removal(&mut self, gone: &Stored) {
        let uid = gone.meta("uid");
        let dependents = self.dependents_of(uid);
        if !dependents.is_empty() {
            let namespace = Arc::clone(&gone.namespace);
            self.pending.gone.insert(uid.to_owned(), namespace);
        }
        for dependent in dependents {
            self.pending.object(dependent);
        }
        for reference in OwnershipChange::between(Some(gone), &Value::Null).freed {
            self.note_owner(&reference, &gone.namespace);
        }
    }
}
