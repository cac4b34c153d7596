//! Machine: shows one object: its state, its YAML, and the owners of its fields.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use steersman_apimachinery::{secret_values, yaml};
use steersman_registry::Registry;
use steersman_schema::resource::Resource;
use steersman_store::Stored;

use super::field_owners::{OwnersView, owners};
use super::kinds;
use super::revisions::{RevisionView, managed};

/// One object with its retained history.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectView {
    /// The plural and the group.
    pub(crate) resource: String,
    pub(crate) kind: String,
    pub(crate) api_version: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The state of the object; the last one if it is deleted and a revision of it is retained.
    pub(crate) state: ObjectState,
    /// The object as YAML, without managedFields and without the values of Secrets.
    pub(crate) yaml: String,
    pub(crate) owners: OwnersView,
    /// A page of the retained revisions, the newest first.
    pub(crate) history: Vec<RevisionView>,
    /// The `before` of the next page of the history; `None` on the last page.
    pub(crate) next: Option<u64>,
}

/// What an object says of itself.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ObjectState {
    pub(crate) exists: bool,
    pub(crate) revision: u64,
    pub(crate) uid: String,
    pub(crate) created: String,
    /// The time of the request to delete the object; empty before.
    pub(crate) deleting_since: String,
    pub(crate) finalizers: Vec<String>,
    pub(crate) generation: Option<i64>,
    pub(crate) observed_generation: Option<i64>,
    pub(crate) owners: Vec<OwnerLink>,
    pub(crate) conditions: Vec<ConditionRow>,
}

/// An owner reference.
#[derive(Debug, Serialize)]
pub(crate) struct OwnerLink {
    pub(crate) kind: String,
    pub(crate) name: String,
    /// Whether the owner is the controller of the object.
    pub(crate) controller: bool,
    /// The plural and the group of the owner; `None` for a kind that is not served.
    pub(crate) resource: Option<String>,
    /// The namespace of the owner; empty for an owner without one.
    pub(crate) namespace: String,
}

#[derive(Debug, Serialize)]
pub(crate) struct ConditionRow {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) since: String,
}

/// An object in the store, or its last retained state.
#[derive(Debug)]
pub(crate) struct FoundObject {
    pub(crate) resource: Arc<Resource>,
    stored: Arc<Stored>,
    exists: bool,
    owners: Vec<OwnerLink>,
}

impl FoundObject {
    /// Finds an object, or its last state if a revision of it is retained. The caller holds the registry's lock.
    pub(crate) fn find(
        registry: &Registry,
        resource: &str,
        (namespace, name): (&str, &str),
    ) -> Option<Self> {
        let resource = kinds::find(registry, resource)?;
        let store = registry.store();
        let current = store.get(&resource.storage, namespace, name);
        let exists = current.is_some();
        let stored = current.cloned().or_else(|| {
            let mut changes = store.latest_changes(&resource.storage);
            let last = changes
                .find(|change| *change.new.namespace == *namespace && *change.new.name == *name)?;
            Some(Arc::clone(&last.new))
        })?;
        let metadata = &stored.look()["metadata"];
        let owners = metadata["ownerReferences"].as_array().into_iter().flatten();
        let owners = owners.map(|owner| owner_link(registry, owner, namespace));
        let owners = owners.collect();
        Some(Self {
            resource,
            stored,
            exists,
            owners,
        })
    }

    pub(crate) fn view(self, history: Vec<RevisionView>, next: Option<u64>) -> ObjectView {
        let object = secret_values::hide(&self.stored.look(), &self.resource.kind);
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = object["status"]["conditions"].as_array().into_iter();
        let conditions = conditions.flatten().map(|one| ConditionRow {
            kind: text(&one["type"]),
            status: text(&one["status"]),
            reason: text(&one["reason"]),
            message: text(&one["message"]),
            since: text(&one["lastTransitionTime"]),
        });
        let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
        let state = ObjectState {
            exists: self.exists,
            revision: self.stored.revision,
            uid: text(&metadata["uid"]),
            created: text(&metadata["creationTimestamp"]),
            deleting_since: text(&metadata["deletionTimestamp"]),
            finalizers: finalizers.map(text).collect(),
            generation: metadata["generation"].as_i64(),
            observed_generation: object["status"]["observedGeneration"].as_i64(),
            owners: self.owners,
            conditions: conditions.collect(),
        };
        ObjectView {
            resource: kinds::name_of(&self.resource),
            kind: self.resource.kind.clone(),
            api_version: self.resource.api_version(),
            namespace: self.stored.namespace.to_string(),
            name: self.stored.name.to_string(),
            state,
            yaml: yaml::write(&object),
            owners: owners(&managed(&self.stored), &object),
            history,
            next,
        }
    }
}

fn owner_link(registry: &Registry, owner: &Value, namespace: &str) -> OwnerLink {
    let text = |name: &str| owner[name].as_str().unwrap_or_default();
    let group = text("apiVersion")
        .split_once('/')
        .map_or("", |(group, _)| group);
    let mut stored = kinds::stored(registry);
    let found = stored.find(|one| one.kind == text("kind") && one.group == group);
    let is_namespaced = found.is_some_and(|resource| resource.namespaced);
    OwnerLink {
        kind: text("kind").to_owned(),
        name: text("name").to_owned(),
        controller: owner["controller"] == true,
        resource: found.map(|resource| kinds::name_of(resource)),
        namespace: if is_namespaced {
            namespace.to_owned()
        } else {
            String::new()
        },
    }
}
