//! Machine: the ControllerRevisions of StatefulSets and DaemonSets, which keep earlier Pod templates.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_store::Stored;

use crate::actions::turn_context::{MAIN, TurnContext};
use crate::state::facts::{controller_reference, label, number, template_hash};

/// The label of Pods and ControllerRevisions with the hash of their Pod template.
pub(crate) const HASH: &str = "controller-revision-hash";

/// The default of `spec.revisionHistoryLimit`.
const HISTORY: i64 = 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revision {
    /// The name of the ControllerRevision: `<owner>-<hash>`.
    pub(crate) name: String,
    pub(crate) hash: String,
}

impl TurnContext<'_> {
    /// Returns the ControllerRevision of the owner's template: creates it if it is missing, and makes it the newest.
    /// Deletes the oldest ControllerRevisions above `revisionHistoryLimit`.
    pub(crate) fn revision(&mut self, owner: &Stored) -> Revision {
        let template = &owner.lean()["spec"]["template"];
        let data = json!({"spec": {"template": template}});
        let hash = template_hash(template, 0);
        let name = format!("{}-{hash}", owner.name);
        let kind = &self.kinds.revisions;
        let mut all = self.controlled(kind, owner.meta("uid"));
        let revision_of = |one: &Arc<Stored>| number(&one.lean()["revision"], 0);
        let newest = all.iter().map(revision_of).max();
        let next = newest.unwrap_or(0).saturating_add(1);
        match all.iter().find(|one| *one.name == *name) {
            Some(own) if revision_of(own) + 1 < next => {
                let mut object = own.lean().clone();
                object["revision"] = json!(next);
                self.update(kind, MAIN, object);
            }
            Some(_) => {}
            None => {
                let mut labels = template["metadata"]["labels"].clone();
                labels[HASH] = json!(hash);
                let body = json!({
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {
                        "name": name, "labels": labels, "ownerReferences": [controller_reference(owner)],
                    },
                    "data": data,
                    "revision": next,
                });
                // The create fails if a ControllerRevision of this name is left from an earlier owner of the same name.
                // Its template is the same, because the name has the hash.
                let _ = self.create(kind, &owner.namespace, body);
            }
        }
        let keep = number(&owner.lean()["spec"]["revisionHistoryLimit"], HISTORY).max(0);
        let keep = usize::try_from(keep).unwrap_or(usize::MAX);
        all.retain(|one| *one.name != *name);
        all.sort_by_key(revision_of);
        let many = all.len().saturating_sub(keep);
        for old in all.into_iter().take(many) {
            self.delete(kind, &old, None);
        }
        Revision { name, hash }
    }
}

pub(crate) fn hash_of(pod: &Value) -> &str {
    label(pod, HASH)
}
