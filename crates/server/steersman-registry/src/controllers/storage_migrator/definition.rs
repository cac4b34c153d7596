//! Machine: writes the condition `StorageMigrating` of a CRD at the start and end of a migration of its objects, and
//! removes old versions from `status.storedVersions` (upstream: `migrationrunner.go` of
//! `pkg/controller/storageversionmigrator`).

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::conditions;
use steersman_apimachinery::status::Status;
use steersman_store::Stored;

use super::records::options;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, PatchKind, Subresource};
use crate::state::registry::Registry;
use crate::values::{items, text};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const CONDITION: &str = "StorageMigrating";
/// The field manager with which the migrator writes the status of CRDs.
const MANAGER: &str = "migration-runner-controller";

impl Registry {
    /// Sets the condition `StorageMigrating` of a CRD to true at the start of a migration of its objects. The condition
    /// keeps the CRD's generation at the start.
    pub(super) fn mark_migrating(&mut self, migration: &Stored) -> Result<(), Status> {
        let Some(definition) = self.migrated_definition(migration) else {
            return Ok(());
        };
        let message = format!("Migration {} is running", migration.name);
        let why = ("True", "MigrationRunning", message.as_str());
        self.write_definition(&definition, why, None)
    }

    /// Sets the condition `StorageMigrating` of a CRD to false at the end of a migration. If the CRD's generation is
    /// still that of the start, sets `storedVersions` to just the storage version; as upstream, also after a failure.
    pub(super) fn unmark_migrating(
        &mut self,
        migration: &Stored,
        is_success: bool,
    ) -> Result<(), Status> {
        let Some(definition) = self.migrated_definition(migration) else {
            return Ok(());
        };
        let value = definition.lean();
        let observed = conditions::find(value, CONDITION).map(|one| &one["observedGeneration"]);
        let is_same = observed == Some(&value["metadata"]["generation"]);
        let why = match (is_success, is_same) {
            (false, _) => ("False", "MigrationFailed", "The migration has failed"),
            (true, true) => (
                "False",
                "MigrationSucceeded",
                "The migration has succeeded and the stored versions have been updated",
            ),
            (true, false) => (
                "False",
                "MigrationSucceeded",
                "The migration has succeeded but the stored versions have not been updated due to a generation mismatch",
            ),
        };
        let versions = items(&value["spec"]["versions"]);
        let version = versions
            .iter()
            .find(|one| one["storage"] == true && is_same);
        self.write_definition(&definition, why, version.map(|one| &one["name"]))
    }

    fn migrated_definition(&self, migration: &Stored) -> Option<Arc<Stored>> {
        let named = &migration.lean()["spec"]["resource"];
        let name = format!("{}.{}", text(&named["resource"]), text(&named["group"]));
        self.object((GROUP, PLURAL), "", &name).cloned()
    }

    /// Writes the condition `StorageMigrating` and, if given, `storedVersions` of a CRD by a server-side apply.
    fn write_definition(
        &mut self,
        definition: &Stored,
        (status, reason, message): (&str, &str, &str),
        stored: Option<&Value>,
    ) -> Result<(), Status> {
        let Some(resource) = self.resource(GROUP, "v1", PLURAL) else {
            return Ok(());
        };
        let value = definition.lean();
        let mut body = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"name": *definition.name,
                "resourceVersion": definition.revision.to_string()},
            "status": {"conditions": [{
                "type": CONDITION,
                "status": status,
                "lastTransitionTime": metadata::time(self.now),
                "reason": reason,
                "message": message,
                "observedGeneration": value["metadata"]["generation"],
            }]},
        });
        if let Some(stored) = stored {
            body["status"]["storedVersions"] = json!([stored]);
        }
        let target =
            ObjectTarget::object(&resource, None, &definition.name).part(Subresource::Status);
        let (body, options) = (body.to_string(), options(MANAGER, Some(true)));
        let (body, now) = (body.as_bytes(), self.now);
        self.patch(target, PatchKind::Apply, body, &options, now)
            .map(drop)
    }
}
