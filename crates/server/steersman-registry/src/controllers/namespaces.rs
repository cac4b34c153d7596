//! Machine: the namespace controller, which deletes all objects in a deleted namespace, and then removes the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use steersman_apimachinery::conditions;
use steersman_schema::resource::StorageKey;

use crate::requests::metadata;
use crate::state::pending_work::PropagationPolicy;
use crate::state::registry::Registry;
use crate::values::{items, texts};
use crate::verbs::deletion::may_go;

/// The conditions of a terminating namespace, each with the reason and the message for the status `False` (no problem).
const CONDITIONS: [(&str, &str, &str); 5] = [
    (
        "NamespaceDeletionDiscoveryFailure",
        "ResourcesDiscovered",
        "All resources successfully discovered",
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    (
        CONTENT_REMAINS,
        "ContentRemoved",
        "All content successfully removed",
    ),
    (
        FINALIZERS_REMAIN,
        "ContentHasNoFinalizers",
        "All content-preserving finalizers finished",
    ),
];

const CONTENT_REMAINS: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAIN: &str = "NamespaceFinalizersRemaining";

#[derive(Debug, Default)]
struct RemainingContent {
    /// The number of remaining objects per storage (`<plural>.<group>`).
    objects: BTreeMap<String, usize>,
    /// The number of remaining objects per finalizer.
    finalizers: BTreeMap<String, usize>,
}

impl Registry {
    /// Records that [`remove_marked`](Self::remove_marked) has to remove a deleted namespace. Does nothing if the
    /// request itself removes it (`remove_at_once`), or another program (`end_namespaces` is off; SRV-NS-2).
    pub(crate) fn put_removal_off(&mut self, name: &Arc<str>) {
        if self.options.end_namespaces && !self.options.remove_at_once {
            self.pending.marked_namespaces.insert(Arc::clone(name));
        }
    }

    /// Records all terminating namespaces for [`remove_marked`](Self::remove_marked), so that a restarted server
    /// continues to delete them.
    pub(crate) fn resume_removals(&mut self) {
        let all = self.objects(("", "namespaces"), None);
        let terminating: Vec<_> = all.filter(|one| one.is_terminating()).cloned().collect();
        for namespace in terminating {
            self.put_removal_off(&namespace.name);
        }
    }

    /// Deletes all objects in a terminating namespace, Pods first. Removes the namespace if no objects are left, and
    /// otherwise reports the remaining objects in its conditions.
    pub(crate) fn empty_namespace(&mut self, name: &str) {
        let namespaces = StorageKey::new("", "namespaces");
        let Some(found) = self.store.get(&namespaces, "", name).cloned() else {
            return;
        };
        if !found.is_terminating() || items(&found.look()["spec"]["finalizers"]).is_empty() {
            return;
        }
        let pods = StorageKey::new("", "pods");
        let mut storages: Vec<StorageKey> = self.store.storages().cloned().collect();
        storages.sort();
        self.clear(&pods, Some(name), Some(PropagationPolicy::Background));
        let mut rest = self.rest(std::slice::from_ref(&pods), name);
        // Deletes other objects, such as ConfigMaps, only when no Pod is left that may still need them (SRV-GC-3).
        if rest.objects.is_empty() {
            for storage in &storages {
                self.clear(storage, Some(name), Some(PropagationPolicy::Background));
            }
            rest = self.rest(&storages, name);
        }
        let mut draft = found.draft();
        let mut changed = rest.report(&mut draft.value, self.now);
        if changed {
            draft = self.put(&namespaces, "", name, draft).draft();
        }
        if !rest.objects.is_empty() {
            return;
        }
        changed = false;
        if let Some(list) = draft.value["spec"]["finalizers"].as_array_mut() {
            let many = list.len();
            list.retain(|one| one != "kubernetes");
            changed = list.len() != many;
        }
        if may_go(&draft.value) {
            if let Some(last) = self.store.get(&namespaces, "", name).cloned() {
                self.remove(&namespaces, &last);
            }
        } else if changed {
            self.put(&namespaces, "", name, draft);
        }
    }

    fn rest(&self, storages: &[StorageKey], namespace: &str) -> RemainingContent {
        let mut rest = RemainingContent::default();
        for storage in storages {
            for object in self.store.list(storage, Some(namespace)) {
                *rest.objects.entry(storage.as_str().to_owned()).or_default() += 1;
                for one in texts(&object.look()["metadata"]["finalizers"]) {
                    *rest.finalizers.entry(one.to_owned()).or_default() += 1;
                }
            }
        }
        rest
    }
}

impl RemainingContent {
    fn report(&self, namespace: &mut Value, now: Timestamp) -> bool {
        let before = namespace["status"]["conditions"].clone();
        let now = metadata::time(now);
        for (name, reason, message) in CONDITIONS {
            let problem = self.problem(name);
            let why = match &problem {
                Some((reason, message)) => (*reason, message.as_str()),
                None => (reason, message),
            };
            conditions::set(namespace, name, problem.is_some(), why, &now);
        }
        namespace["status"]["conditions"] != before
    }

    fn problem(&self, condition: &str) -> Option<(&'static str, String)> {
        let listed = |counts: &BTreeMap<String, usize>, verb: &str| {
            let print =
                |(one, many): (&String, &usize)| format!("{one} {verb} {many} resource instances");
            counts.iter().map(print).collect::<Vec<_>>().join(", ")
        };
        match condition {
            CONTENT_REMAINS if !self.objects.is_empty() => {
                let what = listed(&self.objects, "has");
                let message = format!("Some resources are remaining: {what}");
                Some(("SomeResourcesRemain", message))
            }
            FINALIZERS_REMAIN if !self.finalizers.is_empty() => {
                let what = listed(&self.finalizers, "in");
                let message =
                    format!("Some content in the namespace has finalizers remaining: {what}");
                Some(("SomeFinalizersRemain", message))
            }
            _ => None,
        }
    }
}
