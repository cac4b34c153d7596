//! Machine: the cluster's own controllers, played in place: garbage collection and namespaces.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::schema::{Resource, StorageKey};
use crate::store::Stored;

use super::delete::{Progress, has_finalizers};
use super::metadata;
use super::state::{Address, Registry};

impl Registry {
    /// Draws the consequences of every removal, and of the removals that those cause. A list of
    /// work rather than recursion: a chain of owners may be as long as a client likes.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some((storage, gone)) = self.removed.pop_front() {
            self.finish_definition(&storage, now);
            if self.options.collect_garbage {
                self.collect_dependents(gone.meta("uid"), now);
                self.finish_owners(&gone);
            }
            if self.options.end_namespaces {
                self.finish_namespace(&gone.namespace);
            }
        }
    }

    /// Collects an object that was written with owners of whom none is there, as it would be had
    /// they gone after the write.
    pub(super) fn collect_orphan(
        &mut self,
        resource: &Resource,
        written: &Arc<Stored>,
        now: Timestamp,
    ) {
        if written.owners().next().is_none() {
            return;
        }
        let object = written.look();
        let owners = object["metadata"]["ownerReferences"].as_array();
        let mut owners = owners.into_iter().flatten();
        let is_there = |owner: &Value| {
            !self.knows_owner(owner) || self.owner(owner, &written.namespace).is_some()
        };
        if !self.options.collect_garbage || owners.any(is_there) {
            return;
        }
        self.begin_delete(resource, written, None, None, now);
        self.settle(now);
    }

    /// Whether the kind of an owner is served: what cannot be looked up may be there.
    fn knows_owner(&self, owner: &Value) -> bool {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        self.catalogue.knows_kind(text("apiVersion"), text("kind"))
    }

    fn dependents_of(&self, uid: &str) -> Vec<Address> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .cloned()
            .collect()
    }

    /// Deletes dependents whose owners are all gone or going; from the others only the reference
    /// is taken away.
    pub(super) fn collect_dependents(&mut self, uid: &str, now: Timestamp) {
        for (storage, namespace, name) in self.dependents_of(uid) {
            let Some(found) = self.store.get(&storage, &namespace, &name).cloned() else {
                continue;
            };
            let Some(resource) = self.catalogue.of_storage(&storage).cloned() else {
                continue;
            };
            let owners = found.value["metadata"]["ownerReferences"].as_array();
            let other = owners
                .into_iter()
                .flatten()
                .any(|owner| owner["uid"] != *uid && self.owner_lives(owner, &found.namespace));
            if other {
                self.drop_reference(&storage, &found, uid);
            } else {
                self.begin_delete(&resource, &found, None, None, now);
            }
        }
    }

    fn owner_lives(&self, owner: &Value, namespace: &str) -> bool {
        let found = self.owner(owner, namespace);
        found.is_some_and(|(_, owner)| owner.meta("deletionTimestamp").is_empty())
    }

    /// The object an owner reference names, if it is still the one with that uid.
    fn owner(&self, owner: &Value, namespace: &str) -> Option<(Arc<Resource>, Arc<Stored>)> {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (group, _) = text("apiVersion").split_once('/').unwrap_or_default();
        let mut all = self.catalogue.all().iter();
        let resource = all.find(|known| known.group == group && known.kind == text("kind"))?;
        let namespace = if resource.namespaced { namespace } else { "" };
        let found = self.store.get(&resource.storage, namespace, text("name"))?;
        let same = found.meta("uid") == text("uid");
        same.then(|| (Arc::clone(resource), Arc::clone(found)))
    }

    /// Takes a reference to a gone owner away.
    fn drop_reference(&mut self, storage: &StorageKey, found: &Stored, uid: &str) {
        let mut value = (*found.value).clone();
        let fields = metadata::of(&mut value);
        if let Some(owners) = fields
            .get_mut("ownerReferences")
            .and_then(Value::as_array_mut)
        {
            owners.retain(|owner| owner["uid"] != *uid);
            if owners.is_empty() {
                fields.remove("ownerReferences");
            }
        }
        self.put(storage, &found.namespace, &found.name, value);
    }

    /// Frees every dependent of an owner that is deleted without them.
    pub(super) fn orphan_dependents(&mut self, uid: &str) {
        for (storage, namespace, name) in self.dependents_of(uid) {
            if let Some(found) = self.store.get(&storage, &namespace, &name).cloned() {
                self.drop_reference(&storage, &found, uid);
            }
        }
    }

    /// Lets go of the owners that waited in the foreground for a dependent that is gone now.
    fn finish_owners(&mut self, gone: &Stored) {
        for owner in gone.value["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
        {
            if let Some((resource, owner)) = self.owner(owner, &gone.namespace) {
                self.finish_foreground(&resource, &owner);
            }
        }
    }

    /// Removes the foreground finalizer of an owner without dependents, and then the owner when
    /// nothing else holds it.
    pub(super) fn finish_foreground(
        &mut self,
        resource: &Resource,
        owner: &Arc<Stored>,
    ) -> Progress {
        let waits = !owner.meta("deletionTimestamp").is_empty()
            && owner.value["metadata"]["finalizers"]
                .as_array()
                .is_some_and(|list| list.iter().any(|one| one == "foregroundDeletion"));
        if !waits || self.dependents.contains_key(owner.meta("uid")) {
            return Progress::Marked(Arc::clone(owner));
        }
        let mut value = (*owner.value).clone();
        let fields = metadata::of(&mut value);
        if let Some(list) = fields.get_mut("finalizers").and_then(Value::as_array_mut) {
            list.retain(|one| one != "foregroundDeletion");
            if list.is_empty() {
                fields.remove("finalizers");
            }
        }
        let waiting = value["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0)
            > 0;
        if !has_finalizers(&value) && !waiting {
            return match self.remove(&resource.storage, owner) {
                Some(gone) => Progress::Gone(gone),
                None => Progress::Marked(Arc::clone(owner)),
            };
        }
        Progress::Marked(self.put(&resource.storage, &owner.namespace, &owner.name, value))
    }

    /// Marks a namespace as terminating and empties it.
    pub(super) fn delete_namespace(
        &mut self,
        resource: &Resource,
        stored: &Arc<Stored>,
        now: Timestamp,
    ) -> Progress {
        let marked = if stored.meta("deletionTimestamp").is_empty() {
            let mut value = (*stored.value).clone();
            let time = Value::String(metadata::time(now));
            metadata::of(&mut value).insert("deletionTimestamp".to_owned(), time);
            value["status"] = json!({"phase": "Terminating"});
            self.put(&resource.storage, "", &stored.name, value)
        } else if may_go(&stored.value) {
            return match self.remove(&resource.storage, stored) {
                Some(gone) => Progress::Gone(gone),
                None => Progress::Marked(Arc::clone(stored)),
            };
        } else {
            Arc::clone(stored)
        };
        if self.options.end_namespaces {
            let mut storages: Vec<StorageKey> = self.store.storages().cloned().collect();
            storages.sort();
            for storage in storages {
                self.clear(&storage, Some(&stored.name), now);
            }
            self.finish_namespace(&stored.name);
        }
        Progress::Marked(marked)
    }

    /// After a write: a terminating namespace that nothing holds any more goes.
    pub(super) fn finalize_namespace(&mut self, written: &Stored) {
        let namespaces = StorageKey::new("", "namespaces");
        if !written.meta("deletionTimestamp").is_empty() && may_go(&written.value) {
            self.remove(&namespaces, written);
        } else if self.options.end_namespaces {
            self.finish_namespace(&written.name);
        }
    }

    /// Removes a terminating namespace that is empty.
    pub(super) fn finish_namespace(&mut self, name: &str) {
        let namespaces = StorageKey::new("", "namespaces");
        if name.is_empty() {
            return;
        }
        let Some(found) = self.store.get(&namespaces, "", name).cloned() else {
            return;
        };
        if found.meta("deletionTimestamp").is_empty() || has_finalizers(&found.value) {
            return;
        }
        let others = found.value["spec"]["finalizers"].as_array();
        if others.is_some_and(|list| list.iter().any(|one| one != "kubernetes")) {
            return;
        }
        let occupied = |storage: &StorageKey| self.store.list(storage, Some(name)).next().is_some();
        if self.store.storages().any(occupied) {
            return;
        }
        self.remove(&namespaces, &found);
    }
}

/// Whether a terminating namespace has no finalizer of either sort left.
fn may_go(namespace: &Value) -> bool {
    let spec = namespace["spec"]["finalizers"].as_array();
    spec.is_none_or(Vec::is_empty) && !has_finalizers(namespace)
}
