//! Tests of the storage version migrator as a machine: the tests take the place of its driver.

use std::time::Duration;

use jiff::SignedDuration;

use super::definitions::storage_versions::{DEFINITION, stored_version, websites_stored_as_beta};
use super::definitions::{website, websites};
use super::*;
use crate::{MigrationStep, MigratorTime, MigratorWork, StorageMigrator};

const MIGRATIONS: &str = "storageversionmigrations";

/// A server that serves StorageVersionMigrations, and its migrator; `tick` is the time on the driver's clock.
struct Migrating {
    server: Server,
    migrator: StorageMigrator,
    tick: Duration,
}

impl Migrating {
    /// Creates a server with Websites that are stored as `v1`, although the storage version of their CRD is now
    /// `v1beta1`.
    fn with_websites(names: &[&str]) -> Self {
        let mut server = Server::with(RegistryOptions {
            serve_storage_migrations: true,
            ..RegistryOptions::default()
        });
        server.registry.install_crd(websites(), server.now).unwrap();
        for name in names {
            server.create("websites", website(name)).unwrap();
        }
        let crd = websites_stored_as_beta();
        server.registry.install_crd(crd, server.now).unwrap();
        Self {
            server,
            migrator: StorageMigrator::default(),
            tick: Duration::ZERO,
        }
    }

    fn migrate(&mut self, name: &str, resource: &str) {
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let body = json!({"metadata": {"name": name},
            "spec": {"resource": {"group": group, "resource": resource}}});
        self.server.create(MIGRATIONS, body).unwrap();
    }

    fn next(&mut self, done: Option<(MigrationStep, Done<()>)>) -> MigratorWork {
        let now = MigratorTime {
            wall: self.server.now,
            tick: self.tick,
        };
        let registry = &mut self.server.registry;
        self.migrator.next_work(registry, done, now)
    }

    /// Makes the write of a step as a driver would, and returns the migrator's next work.
    fn store(&mut self, step: MigrationStep) -> MigratorWork {
        let outcome = self.server.registry.store_anew(&step, self.server.now);
        self.next(Some((step, outcome)))
    }

    /// Runs the migrator for at most `most` writes, until it waits. Returns the number of writes, and the next work.
    fn run(&mut self, most: usize) -> (usize, MigratorWork) {
        let work = self.next(None);
        self.go_on(work, most)
    }

    /// Runs the migrator from `work`, which it has returned before, for at most `most` writes. Returns the number of
    /// writes and the next work.
    fn go_on(&mut self, mut work: MigratorWork, most: usize) -> (usize, MigratorWork) {
        for writes in 0..most {
            let MigratorWork::Store(step) = work else {
                return (writes, work);
            };
            work = self.store(step);
        }
        (most, work)
    }

    /// Returns the conditions of a StorageVersionMigration, each as `Type=Status Reason Message`.
    fn conditions(&self, name: &str) -> Vec<String> {
        let migration = self.server.get(MIGRATIONS, name).unwrap();
        said(&migration)
    }

    fn definition(&self) -> Value {
        let crd = self.server.get("customresourcedefinitions", DEFINITION);
        crd.unwrap()
    }

    /// Returns the condition `StorageMigrating` of the CRD as `Type=Status Reason Message`; empty if the CRD lacks it.
    fn migrating(&self) -> String {
        let all = said(&self.definition()).into_iter();
        let mut all = all.filter(|one| one.starts_with("StorageMigrating"));
        all.next().unwrap_or_default()
    }
}

fn said(object: &Value) -> Vec<String> {
    let conditions = object["status"]["conditions"].as_array().into_iter();
    let text = |one: &Value, field: &str| one[field].as_str().unwrap().to_owned();
    let said = conditions.flatten().map(|one| {
        let (kind, status) = (text(one, "type"), text(one, "status"));
        let (reason, message) = (text(one, "reason"), text(one, "message"));
        format!("{kind}={status} {reason} {message}")
            .trim()
            .to_owned()
    });
    said.collect()
}

const STARTED: &str = "Running=True MigrationRunning The migration is running";
const ENDED: &str = "Running=False MigrationCompleted Migration completed";
const SUCCEEDED: &str = "Succeeded=True StorageVersionMigrationSucceeded";

/// SRV-SVM-3: after a migration every object of its resource is stored in the storage version.
#[test]
fn a_migration_stores_every_object_anew_and_prunes_the_stored_versions() {
    let mut it = Migrating::with_websites(&["a", "b", "c"]);
    it.server.create("websites", website("new")).unwrap();
    let options = ListQuery::default();
    let mut cursor = it.server.watch("websites", &options).unwrap();
    it.server.poll(&mut cursor);
    let before = it.server.get("websites", "a").unwrap();
    assert_eq!(
        it.definition()["status"]["storedVersions"],
        json!(["v1", "v1beta1"])
    );
    it.migrate("m", "websites.example.com");
    let MigratorWork::Store(step) = it.next(None) else {
        panic!("there is an object to store anew");
    };
    assert_eq!(it.conditions("m"), [STARTED]);
    let migration = it.server.get(MIGRATIONS, "m").unwrap();
    assert_eq!(
        migration["status"]["resourceVersion"],
        (it.server.registry.revision() - 1).to_string()
    );
    assert_eq!(
        it.migrating(),
        "StorageMigrating=True MigrationRunning Migration m is running"
    );
    let (writes, work) = it.go_on(MigratorWork::Store(step), 10);
    assert!(matches!(work, MigratorWork::Wait), "{work:?}");
    assert_eq!(writes, 4, "one per object");
    assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
    for name in ["a", "b", "c", "new"] {
        assert_eq!(
            stored_version(&it.server, name),
            "example.com/v1beta1",
            "{name}"
        );
    }
    assert_eq!(
        it.server.poll(&mut cursor),
        ["MODIFIED a", "MODIFIED b", "MODIFIED c"]
    );
    let mut after = it.server.get("websites", "a").unwrap();
    after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
    assert_eq!(after, before, "the migrator owns no field");
    assert_eq!(
        it.migrating(),
        "StorageMigrating=False MigrationSucceeded The migration has succeeded and the stored versions have been updated"
    );
    assert_eq!(
        it.definition()["status"]["storedVersions"],
        json!(["v1beta1"])
    );
    let revision = it.server.registry.revision();
    assert!(matches!(it.run(10), (0, MigratorWork::Wait)));
    assert_eq!(
        it.server.registry.revision(),
        revision,
        "the migration is over"
    );
}

/// SRV-SVM-1: a resource has at most one running migration.
#[test]
fn one_migration_per_resource_runs_the_oldest_first() {
    let mut it = Migrating::with_websites(&["a", "b"]);
    it.server.create("configmaps", config_map("c")).unwrap();
    let now = it.server.now;
    it.migrate("second", "websites.example.com");
    it.server.now = now - SignedDuration::from_secs(5);
    it.migrate("third-but-older", "websites.example.com");
    it.migrate("other", "configmaps");
    it.server.now = now;
    let work = it.next(None);
    assert_eq!(it.conditions("third-but-older"), [STARTED]);
    assert_eq!(it.conditions("other"), [STARTED], "another resource");
    assert_eq!(it.conditions("second"), Vec::<String>::new());
    let (_, work) = it.go_on(work, 100);
    assert!(matches!(work, MigratorWork::Wait), "{work:?}");
    for name in ["third-but-older", "other", "second"] {
        assert_eq!(it.conditions(name), [ENDED, SUCCEEDED], "{name}");
    }
}

/// If a migration with an older creation time appears while another one of its resource runs, it waits for the other.
#[test]
fn an_older_migration_does_not_replace_the_running_one() {
    let mut it = Migrating::with_websites(&["a", "b"]);
    it.migrate("first", "websites.example.com");
    let work = it.next(None);
    let now = it.server.now;
    it.server.now = now - SignedDuration::from_secs(5);
    it.migrate("an-older-one", "websites.example.com");
    it.server.now = now;
    let (_, work) = it.go_on(work, 1);
    assert_eq!(it.conditions("first"), [STARTED]);
    assert_eq!(it.conditions("an-older-one"), Vec::<String>::new());
    it.go_on(work, 100);
    assert_eq!(it.conditions("an-older-one"), [ENDED, SUCCEEDED]);
}

/// A migrator that a restarted server creates goes through all objects again; objects in the storage version stay as
/// they are.
#[test]
fn an_interrupted_migration_continues_and_stores_no_object_twice() {
    let names: Vec<String> = (0..20).map(|number| format!("w{number:02}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for most in [0, 1, 7, 19, 20] {
        let mut it = Migrating::with_websites(&names);
        it.migrate("m", "websites.example.com");
        let options = ListQuery::default();
        let mut cursor = it.server.watch("websites", &options).unwrap();
        it.server.poll(&mut cursor);
        it.run(most);
        it.migrator = StorageMigrator::default();
        it.run(100);
        assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
        let written = it.server.poll(&mut cursor).len();
        assert_eq!(written, names.len(), "after {most} writes");
        assert_eq!(
            it.definition()["status"]["storedVersions"],
            json!(["v1beta1"])
        );
    }
}

#[test]
fn an_object_that_cannot_be_stored_anew_ends_the_migration() {
    let mut it = Migrating::with_websites(&["a", "bad", "c"]);
    let policy = json!({"metadata": {"name": "keep"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": ["example.com"],
            "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["websites"]}]},
        "validations": [{"expression": "object.metadata.name != 'bad'", "message": "no"}]}});
    it.server
        .create("validatingadmissionpolicies", policy)
        .unwrap();
    let binding = json!({"metadata": {"name": "keep"},
        "spec": {"policyName": "keep", "validationActions": ["Deny"]}});
    it.server
        .create("validatingadmissionpolicybindings", binding)
        .unwrap();
    it.migrate("m", "websites.example.com");
    let (_, work) = it.run(100);
    assert!(matches!(work, MigratorWork::Wait), "{work:?}");
    let failed = it.conditions("m");
    assert_eq!(failed[0], ENDED);
    assert!(
        failed[1].starts_with(
            "Failed=True StorageVersionMigrationFailed migration encountered unhandled error: "
        ) && failed[1].ends_with("denied request: no"),
        "{failed:?}"
    );
    assert_eq!(
        it.migrating(),
        "StorageMigrating=False MigrationFailed The migration has failed"
    );
    assert_eq!(stored_version(&it.server, "a"), "example.com/v1beta1");
    assert_eq!(stored_version(&it.server, "c"), "example.com/v1");
}

#[test]
fn an_object_that_changes_or_goes_meanwhile_is_no_failure() {
    let mut it = Migrating::with_websites(&["changed", "gone", "last", "recreated"]);
    it.migrate("m", "websites.example.com");
    let work = it.next(None);
    it.server
        .merge("websites", "changed", json!({"spec": {"replicas": 3}}))
        .unwrap();
    for name in ["gone", "recreated"] {
        it.server.delete("websites", name).unwrap();
    }
    it.server.create("websites", website("recreated")).unwrap();
    it.go_on(work, 100);
    assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
    for name in ["changed", "last", "recreated"] {
        assert_eq!(
            stored_version(&it.server, name),
            "example.com/v1beta1",
            "{name}"
        );
    }
    assert!(it.server.get("websites", "gone").is_err());
}

/// SRV-SVM-3: after a conflict, an object may still be in the old version, because writes of the server itself do not
/// convert by a webhook. The migrator then writes the object again.
#[test]
fn an_object_that_is_still_of_the_old_version_after_a_conflict_is_stored_anew() {
    let mut it = Migrating::with_websites(&["a", "b"]);
    it.migrate("m", "websites.example.com");
    let MigratorWork::Store(step) = it.next(None) else {
        panic!("there is an object to store anew");
    };
    let resource = it.server.resource("websites");
    let conflict = Status::conflict(resource.group_resource(), "a", "modified");
    let work = it.next(Some((step, Err(conflict))));
    let (writes, _) = it.go_on(work, 100);
    assert_eq!(writes, 2);
    assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
    assert_eq!(stored_version(&it.server, "a"), "example.com/v1beta1");
}

#[test]
fn a_definition_that_changes_meanwhile_keeps_its_stored_versions() {
    let mut it = Migrating::with_websites(&["a", "b"]);
    it.migrate("m", "websites.example.com");
    let work = it.next(None);
    let patch = json!({"spec": {"names": {"categories": ["all"]}}});
    it.server
        .merge("customresourcedefinitions", DEFINITION, patch)
        .unwrap();
    it.go_on(work, 100);
    assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
    assert_eq!(
        it.migrating(),
        "StorageMigrating=False MigrationSucceeded The migration has succeeded but the stored versions have not been updated due to a generation mismatch"
    );
    assert_eq!(
        it.definition()["status"]["storedVersions"],
        json!(["v1", "v1beta1"])
    );
}

#[test]
fn a_failure_that_may_pass_delays_the_migration() {
    let mut it = Migrating::with_websites(&["a"]);
    it.migrate("m", "websites.example.com");
    let mut work = it.next(None);
    for delay in [5, 10, 20] {
        let MigratorWork::Store(step) = work else {
            panic!("the object is to be stored anew, and not {work:?}");
        };
        let outcome = Err(Status::internal_plain("conversion webhook failed"));
        let MigratorWork::WaitUntil(due) = it.next(Some((step, outcome))) else {
            panic!("the migration is delayed");
        };
        assert_eq!(due - it.tick, Duration::from_millis(delay));
        assert_eq!(it.conditions("m"), [STARTED]);
        it.tick = due;
        work = it.next(None);
    }
    it.go_on(work, 100);
    assert_eq!(it.conditions("m"), [ENDED, SUCCEEDED]);
}

#[test]
fn a_resource_that_is_not_served_fails_after_a_minute() {
    let mut it = Migrating::with_websites(&[]);
    it.migrate("m", "others.example.com");
    it.migrate("reviews", "tokenreviews.authentication.k8s.io");
    let (_, work) = it.run(10);
    let MigratorWork::WaitUntil(due) = work else {
        panic!("the migration waits for its resource: {work:?}");
    };
    assert_eq!(due, Duration::from_secs(60));
    assert_eq!(it.conditions("m"), [STARTED]);
    let failed = "Failed=True StorageVersionMigrationFailed migration encountered unhandled error:";
    assert_eq!(
        it.conditions("reviews"),
        [ENDED, &format!("{failed} resource is not migratable")]
    );
    it.tick = due;
    it.server.now += SignedDuration::from_secs(60);
    let (_, work) = it.run(10);
    assert!(matches!(work, MigratorWork::Wait), "{work:?}");
    assert_eq!(
        it.conditions("m"),
        [
            ENDED,
            &format!("{failed} resource does not exist in discovery")
        ]
    );
}

#[test]
fn a_deleted_migration_stops() {
    let mut it = Migrating::with_websites(&["a", "b"]);
    it.migrate("m", "websites.example.com");
    let work = it.next(None);
    it.server.delete(MIGRATIONS, "m").unwrap();
    let (writes, work) = it.go_on(work, 100);
    assert_eq!(writes, 1, "the step that was returned before");
    assert!(matches!(work, MigratorWork::Wait), "{work:?}");
    assert_eq!(stored_version(&it.server, "b"), "example.com/v1");
}

#[test]
fn migrations_are_served_only_if_enabled() {
    let server = Server::new();
    let (group, version) = steersman_schema::builtin::STORAGE_MIGRATION;
    assert!(
        server
            .registry
            .resource(group, version, MIGRATIONS)
            .is_none()
    );
    assert!(!server.registry.migrates_storage());
    let mut it = Migrating::with_websites(&[]);
    assert!(it.server.registry.migrates_storage());
    it.migrate("m", "websites.example.com");
    let made = it.server.get(MIGRATIONS, "m").unwrap();
    assert_eq!(made["apiVersion"], "storagemigration.k8s.io/v1beta1");
    assert_eq!(made["status"], json!({}));
}
