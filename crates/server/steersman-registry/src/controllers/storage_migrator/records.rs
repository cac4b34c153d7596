//! Machine: the reads and writes of StorageVersionMigrations, and of the objects that they migrate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};
use steersman_apimachinery::conditions;
use steersman_apimachinery::status::Status;
use steersman_auth::User;
use steersman_schema::builtin::STORAGE_MIGRATION;
use steersman_schema::resource::{Resource, StorageKey};
use steersman_store::Stored;

use super::{MigrationCandidate, MigrationStep};
use crate::requests::metadata;
use crate::requests::options::{ObjectTarget, PatchKind, Subresource, WriteOptions};
use crate::state::registry::Registry;
use crate::values::text;

const PLURAL: &str = "storageversionmigrations";
/// The name of the migrator's ServiceAccount, and the field manager with which it writes migrated objects.
const CONTROLLER: &str = "storage-version-migrator-controller";
/// The field manager with which the migrator writes the status of StorageVersionMigrations.
const STATUS_MANAGER: &str = "kube-controller-manager";

const RUNNING: &str = "Running";
const SUCCEEDED: &str = "Succeeded";
/// The condition of a migration that has failed: it could not write an object, or its resource is not served.
const FAILED: &str = "Failed";

pub(super) fn storage() -> StorageKey {
    StorageKey::new(STORAGE_MIGRATION.0, PLURAL)
}

pub(super) fn options(manager: &str, force: Option<bool>) -> WriteOptions {
    WriteOptions {
        field_manager: Some(manager.to_owned()),
        user: Arc::new(User::service_account("kube-system", CONTROLLER)),
        force,
        ..WriteOptions::default()
    }
}

fn is_ended(migration: &Value) -> bool {
    conditions::holds(migration, SUCCEEDED) || conditions::holds(migration, FAILED)
}

pub(super) fn is_active(migration: &Value) -> bool {
    conditions::holds(migration, RUNNING) && !is_ended(migration)
}

fn candidate(stored: &Stored) -> MigrationCandidate {
    MigrationCandidate {
        namespace: Arc::clone(&stored.namespace),
        name: Arc::clone(&stored.name),
        uid: stored.meta("uid").to_owned(),
        revision: stored.revision,
    }
}

/// Returns whether a custom resource is stored in another version than the CRD's storage version.
fn is_outdated(resource: &Resource, stored: &Stored) -> bool {
    let current = format!("{}/{}", resource.group, resource.storage_version);
    !resource.built_in && stored.api_version() != current
}

impl Registry {
    /// Returns whether a driver has to run a [`StorageMigrator`](crate::StorageMigrator) for this registry: the options
    /// turn StorageVersionMigrations and the migrator on.
    pub fn migrates_storage(&self) -> bool {
        self.options.serve_storage_migrations && self.options.migrate_storage
    }

    /// Writes an object again in the storage version. As upstream, this is a server-side apply without any field. If a
    /// conversion webhook is needed, the write stops for its call like the verb of a request.
    ///
    /// # Errors
    /// 409 if the object was changed or deleted since it was listed, 404 if its kind is not served,
    /// and the errors of [`Registry::patch`].
    pub fn store_anew(&mut self, step: &MigrationStep, now: Timestamp) -> Result<(), Status> {
        self.now = now;
        // Looks up the resource now, because the CRD may have changed since the object was listed.
        let resource = self.catalogue.of_storage(&step.storage).cloned();
        let resource = resource.ok_or_else(Status::no_such_path)?;
        let candidate = &step.candidate;
        let body = json!({
            "apiVersion": resource.api_version(),
            "kind": resource.kind,
            "metadata": {"uid": candidate.uid, "resourceVersion": candidate.revision.to_string()},
        });
        let namespace = Some(&*candidate.namespace).filter(|_| resource.namespaced);
        let target = ObjectTarget::object(&resource, namespace, &candidate.name);
        let (body, options) = (body.to_string(), options(CONTROLLER, None));
        self.patch(target, PatchKind::Apply, body.as_bytes(), &options, now)
            .map(drop)
    }

    /// Updates the CRDs of ended migrations. For each resource without a running migration, starts its oldest waiting
    /// migration (SRV-SVM-1: at most one runs per resource).
    pub(super) fn admit_migrations(&mut self) -> Result<(), Status> {
        let all: Vec<Arc<Stored>> = self.store.list(&storage(), None).cloned().collect();
        // By resource: its oldest waiting migration; `None` if one of its migrations runs.
        let mut next: BTreeMap<String, Option<&Arc<Stored>>> = BTreeMap::new();
        let age = |one: &Stored| {
            let made = one.meta("creationTimestamp").to_owned();
            (made, one.name.to_string())
        };
        for one in &all {
            let value = one.lean();
            let is_running = conditions::holds(value, RUNNING);
            if is_ended(value) {
                if is_running {
                    self.unmark_migrating(one, conditions::holds(value, SUCCEEDED))?;
                    let why = ("MigrationCompleted", "Migration completed");
                    self.write_condition(&one.name, (RUNNING, false), why)?;
                }
                continue;
            }
            let resource = value["spec"]["resource"].to_string();
            let waits = Some(one).filter(|_| !is_running);
            let entry = next.entry(resource).or_insert(waits);
            if is_running || entry.is_some_and(|other| age(one) < age(other)) {
                *entry = waits;
            }
        }
        for one in next.into_values().flatten() {
            self.mark_migrating(one)?;
            let why = ("MigrationRunning", "The migration is running");
            self.write_condition(&one.name, (RUNNING, true), why)?;
        }
        Ok(())
    }

    pub(super) fn end_migration(
        &mut self,
        name: &str,
        outcome: &Result<(), String>,
    ) -> Result<(), Status> {
        match outcome {
            Ok(()) => {
                let why = ("StorageVersionMigrationSucceeded", "");
                self.write_condition(name, (SUCCEEDED, true), why)
            }
            Err(why) => {
                let message = format!("migration encountered unhandled error: {why}");
                let why = ("StorageVersionMigrationFailed", message.as_str());
                self.write_condition(name, (FAILED, true), why)
            }
        }
    }

    pub(super) fn migration(&self, name: &str) -> Option<Arc<Stored>> {
        self.store.get(&storage(), "", name).cloned()
    }

    /// Returns the resource that a migration names, in its preferred version; `None` if the resource is not served.
    pub(super) fn migrated_resource(&self, migration: &Value) -> Option<Arc<Resource>> {
        let named = &migration["spec"]["resource"];
        let (group, plural) = (text(&named["group"]), text(&named["resource"]));
        let mut all = self.catalogue.all.iter();
        let found = all.find(|one| one.group == group && one.plural == plural);
        found.cloned()
    }

    /// Returns the objects that a migration has to write: all objects that were last written up to the migration's
    /// `status.resourceVersion` (the first call sets it to the newest revision), and of the objects written later those
    /// that are not in the storage version.
    pub(super) fn list_candidates(
        &mut self,
        migration: &Stored,
        resource: &Resource,
    ) -> Result<VecDeque<MigrationCandidate>, Status> {
        let known = migration.lean()["status"]["resourceVersion"].as_str();
        let last = match known.and_then(|text| text.parse().ok()) {
            Some(known) => known,
            None => {
                let last = self.revision();
                self.write_migration(&migration.name, |value, _| {
                    value["status"]["resourceVersion"] = last.to_string().into();
                })?;
                last
            }
        };
        let all = self.store.list(&resource.storage, None);
        let candidates = all.filter(|one| one.revision <= last || is_outdated(resource, one));
        Ok(candidates.map(|one| candidate(one)).collect())
    }

    /// Returns the present uid and revision of an object as a candidate, if it exists and is still not in the storage
    /// version, so that it has to be written again.
    pub(super) fn outdated(
        &self,
        storage: &StorageKey,
        candidate: &MigrationCandidate,
    ) -> Option<MigrationCandidate> {
        let resource = self.catalogue.of_storage(storage)?;
        let found = self
            .store
            .get(storage, &candidate.namespace, &candidate.name)?;
        is_outdated(resource, found).then(|| self::candidate(found))
    }

    fn write_condition(
        &mut self,
        name: &str,
        (kind, holds): (&str, bool),
        why: (&str, &str),
    ) -> Result<(), Status> {
        self.write_migration(name, |value, time| {
            conditions::set(value, kind, holds, why, time);
        })
    }

    fn write_migration(
        &mut self,
        name: &str,
        change: impl FnOnce(&mut Value, &str),
    ) -> Result<(), Status> {
        let resource = self.resource(STORAGE_MIGRATION.0, STORAGE_MIGRATION.1, PLURAL);
        let (Some(resource), Some(stored)) = (resource, self.migration(name)) else {
            return Ok(());
        };
        let mut value = stored.lean().clone();
        change(&mut value, &metadata::time(self.now));
        let target = ObjectTarget::object(&resource, None, name).part(Subresource::Status);
        self.update(target, value, &options(STATUS_MANAGER, None), self.now)?;
        Ok(())
    }
}
