//! Machine: functions that the acts on Pods share.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::status::{GroupResource, Status};
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::requests::metadata;
use crate::state::registry::Registry;

impl Registry {
    /// Returns a Pod, or 404.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let found = self
            .store
            .get(&StorageKey::new("", "pods"), namespace, name);
        found
            .cloned()
            .ok_or_else(|| Status::not_found(GroupResource::new("", "pods"), name))
    }
}

/// Replaces the condition of the same type, or appends the condition.
pub(crate) fn set_condition(object: &mut Value, condition: Value) {
    let status = metadata::members(object)
        .entry("status")
        .or_insert_with(|| json!({}));
    let conditions = metadata::members(status)
        .entry("conditions")
        .or_insert_with(|| json!([]));
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list
        .iter_mut()
        .find(|known| known["type"] == condition["type"])
    {
        Some(known) => *known = condition,
        None => list.push(condition),
    }
}
