//! Words: the `Database` kind, as its users write it and read it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steersman::CustomResource;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use steersman::status_conditions::HasConditions;

/// A database of the service.
#[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::duplicated_attributes, reason = "columns may share a type")]
#[kube(
    group = "db.example.com",
    version = "v1",
    kind = "Database",
    plural = "databases",
    namespaced,
    status = "DatabaseStatus",
    printcolumn(name = "Owner", type_ = "string", json_path = ".spec.owner"),
    printcolumn(
        name = "Connections",
        type_ = "integer",
        json_path = ".spec.connections"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    )
)]
pub struct DatabaseSpec {
    /// The user that owns the database.
    pub owner: String,
    /// The largest number of open connections.
    #[serde(default = "ten")]
    #[schemars(range(min = 1, max = 1000))]
    pub connections: i32,
}

/// What the operator last saw of a [`Database`].
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DatabaseStatus {
    /// The generation of the spec that this status describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The name of the database at the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The Secret with the credentials, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// `Ready` is true while the database is as the spec says, and the Secret has its credentials.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// The finalizer of every [`Database`], until the operator has deleted the database at the service.
pub const FINALIZER: &str = "db.example.com/database";

impl HasConditions for Database {
    fn conditions(&self) -> &[Condition] {
        let status = self.status.as_ref();
        status.map_or(&[], |status| &status.conditions)
    }

    fn conditions_mut(&mut self) -> &mut Vec<Condition> {
        &mut self.status.get_or_insert_default().conditions
    }
}

fn ten() -> i32 {
    10
}
