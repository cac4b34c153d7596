//! Machine: what the acts on Pods share.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::schema::StorageKey;
use crate::status::{Status, Subject};
use crate::store::Stored;

use super::metadata;
use super::state::Registry;

impl Registry {
    /// A Pod that has to be there.
    pub(super) fn pod(&self, namespace: &str, name: &str) -> Result<Arc<Stored>, Status> {
        let found = self
            .store
            .get(&StorageKey::new("", "pods"), namespace, name);
        found
            .cloned()
            .ok_or_else(|| Status::not_found(Subject::new("", "pods"), name))
    }
}

/// A body may leave its kind out, but not be of another one.
pub(super) fn expect_kind(body: &Value, kind: &str) -> Result<(), Status> {
    match body["kind"].as_str() {
        None => Ok(()),
        Some(own) if own == kind => Ok(()),
        Some(own) => {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            let short = version.rsplit('/').next().unwrap_or_default();
            Err(Status::bad_request(format!(
                "{own} in version \"{short}\" cannot be handled as a {kind}"
            )))
        }
    }
}

/// Puts a condition in the place of the one of its type, or behind all others.
pub(super) fn set_condition(object: &mut Value, condition: Value) {
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
