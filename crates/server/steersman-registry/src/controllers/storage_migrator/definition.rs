//! Machine: the condition `StorageMigrating` of a CRD, and its `status.storedVersions` after a migration.
//!
//! Kubernetes source: `migrationrunner.go` of `pkg/controller/storageversionmigrator`.

use std::sync::Arc;

use serde_json::{Value, json};
use steersman_apimachinery::status::Status;
use steersman_store::Stored;

use super::records::options;
use crate::objects::conditions;
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, PatchKind, Subresource};
use crate::state::registry::Registry;
use crate::values::{items, text};

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const CONDITION: &str = "StorageMigrating";
/// The field manager that the migrator uses for CRDs.
const MANAGER: &str = "migration-runner-controller";

impl Registry {
    /// Sets the condition of a CRD that a migration of its objects runs, with the CRD's generation at the start.
    pub(super) fn mark_migrating(&mut self, migration: &Stored) -> Result<(), Status> {
        let Some(definition) = self.migrated_definition(migration) else {
            return Ok(());
        };
        let message = format!("Migration {} is running", migration.name);
        let why = ("True", "MigrationRunning", message.as_str());
        self.write_definition(&definition, why, None)
    }

    /// Sets the condition of a CRD that the migration has ended. If its generation is still that of the start, only the
    /// storage version stays in `storedVersions`, as upstream also after a failure.
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

    /// Applies the condition, and the stored versions if given, to the CRD.
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
