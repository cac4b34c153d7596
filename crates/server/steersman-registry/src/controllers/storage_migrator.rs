//! Machine: the storage version migrator, which carries out one StorageVersionMigration per resource at a time: it
//! writes each stored object again in the storage version, one object per step (upstream:
//! `pkg/controller/storageversionmigrator` of 1.36).

mod records;
mod definition;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use steersman_apimachinery::status::Status;
use steersman_schema::resource::StorageKey;
use steersman_store::Stored;

use crate::state::registry::Registry;

/// The age at which a migration fails if its resource is not served. Until then, the CRD may still be created.
const DISCOVERY: SignedDuration = SignedDuration::from_secs(60);
/// The delay after a first failure to write an object or to start a migration. Each further failure in a row doubles
/// the delay, up to `MOST_BACKOFF`, as in upstream's rate limiter.
const BACKOFF: Duration = Duration::from_millis(5);
const MOST_BACKOFF: Duration = Duration::from_secs(1000);

/// The storage version migrator of a server. The progress of a migration is only in memory: after a restart it begins
/// anew, and a write of an object that is in the storage version already changes nothing.
///
/// A driver calls [`next_work`](Self::next_work), passes the returned [`MigrationStep`] to [`Registry::store_anew`],
/// and the outcome to the next call of `next_work`. A step writes one object, so that requests can use the registry
/// between two steps (SRV-SVM-2).
#[derive(Debug, Default)]
pub struct StorageMigrator {
    /// The revision at which the migrator last read all StorageVersionMigrations; `None` before the first time.
    seen: Option<u64>,
    running: VecDeque<RunningMigration>,
    /// The number of failed attempts in a row to start migrations, and the time of the next attempt on the driver's
    /// clock; `None` if the last attempt did not fail.
    refused: Option<(u32, Duration)>,
}

/// A StorageVersionMigration with the condition `Running` that has not ended.
#[derive(Debug)]
struct RunningMigration {
    name: Arc<str>,
    uid: String,
    /// The objects that the migration still has to write; `None` before they are listed.
    waiting: Option<VecDeque<MigrationCandidate>>,
    /// The outcome of an ended migration, to be written to its conditions; an error is the message of the condition
    /// `Failed`. `None` while the migration runs.
    outcome: Option<Result<(), String>>,
    /// The number of failed writes in a row, which decides the delay before the next write.
    failures: u32,
    /// The time on the driver's clock before which the migration does nothing.
    due: Duration,
}

/// An object that a migration has to write, with its uid and revision when it was listed. If these have changed since,
/// the write fails.
#[derive(Debug)]
struct MigrationCandidate {
    namespace: Arc<str>,
    name: Arc<str>,
    uid: String,
    revision: u64,
}

/// One step of a migration: the write of one stored object in the storage version, by [`Registry::store_anew`].
#[derive(Debug)]
pub struct MigrationStep {
    migration: String,
    storage: StorageKey,
    candidate: MigrationCandidate,
}

/// The instruction of [`StorageMigrator::next_work`] to its driver: write an object, or wait.
#[derive(Debug)]
pub enum MigratorWork {
    /// Write an object with [`Registry::store_anew`].
    Store(MigrationStep),
    /// Wait until the driver's clock reaches this time, or until a migration or an object changes.
    WaitUntil(Duration),
    /// Wait until a migration or an object changes.
    Wait,
}

/// The current time by two clocks. The driver reads them, because the migrator is a machine and reads no clock.
#[derive(Debug, Clone, Copy)]
pub struct MigratorTime {
    /// The wall time of the server, which is written into conditions.
    pub wall: Timestamp,
    /// The time since the driver started, on a clock that never goes back. Delays are measured by it.
    pub tick: Duration,
}

impl StorageMigrator {
    /// Returns the next write, or how long to wait. `done` is the step that the previous call returned, with the result
    /// of [`Registry::store_anew`].
    pub fn next_work(
        &mut self,
        registry: &mut Registry,
        done: Option<(MigrationStep, Result<(), Status>)>,
        now: MigratorTime,
    ) -> MigratorWork {
        registry.now = now.wall;
        if let Some((step, outcome)) = done {
            self.finish_step(registry, &step, outcome, now);
        }
        self.admit(registry, now);
        // The loop ends, because each iteration returns a step, or ends or delays one of the running migrations.
        while let Some(at) = self.running.iter().position(|one| one.due <= now.tick)
            && let Some(mut next) = self.running.remove(at)
        {
            let storage = next.prepare(registry, now);
            if let Some(outcome) = &next.outcome {
                if registry.end_migration(&next.name, outcome).is_err() {
                    next.delay(now);
                    self.running.push_back(next);
                }
                self.admit(registry, now);
                continue;
            }
            let step = storage.and_then(|storage| {
                Some(MigrationStep {
                    migration: next.uid.clone(),
                    storage,
                    candidate: next.waiting.as_mut()?.pop_front()?,
                })
            });
            self.running.push_back(next);
            if let Some(step) = step {
                return MigratorWork::Store(step);
            }
        }
        let running = self.running.iter().map(|one| one.due);
        let due = running.chain(self.refused.map(|(_, due)| due)).min();
        due.map_or(MigratorWork::Wait, MigratorWork::WaitUntil)
    }

    fn finish_step(
        &mut self,
        registry: &Registry,
        step: &MigrationStep,
        outcome: Result<(), Status>,
        now: MigratorTime,
    ) {
        let mut running = self.running.iter_mut();
        let Some(migration) = running.find(|one| one.uid == step.migration) else {
            return;
        };
        match outcome {
            Ok(()) => migration.failures = 0,
            // The object was deleted or written since it was listed. A request has written it in the storage version.
            // But a write of the server itself calls no conversion webhook, and may have kept the old version; then the
            // object is written again (SRV-SVM-3).
            Err(status) if status.code == 409 => {
                migration.failures = 0;
                let again = registry.outdated(&step.storage, &step.candidate);
                if let Some(waiting) = &mut migration.waiting {
                    waiting.extend(again);
                }
            }
            // These errors may be temporary, so after a delay the migration lists its objects again and goes on.
            Err(status) if matches!(status.code, 429 | 500 | 503 | 504) => {
                migration.waiting = None;
                migration.delay(now);
            }
            Err(status) => migration.outcome = Some(Err(status.message)),
        }
    }

    /// Starts and ends migrations, and updates `running`, if a StorageVersionMigration was written since the previous
    /// call, or if the previous attempt failed and its delay is over.
    fn admit(&mut self, registry: &mut Registry, now: MigratorTime) {
        let storage = records::storage();
        let is_unchanged = self.seen.is_some_and(|seen| {
            let changes = registry.store.changes(&storage, seen);
            changes.is_ok_and(|mut changes| changes.next().is_none())
        });
        match self.refused {
            Some((_, due)) if due > now.tick => return,
            None if is_unchanged => return,
            _ => {}
        }
        // Set before the writes of `admit_migrations`, so that the next call reads the migrations again after these
        // writes.
        self.seen = Some(registry.revision());
        let is_refused = registry.admit_migrations().is_err();
        let refusals = self.refused.map_or(0, |(count, _)| count) + 1;
        let due = now.tick.saturating_add(backoff(refusals));
        self.refused = is_refused.then_some((refusals, due));
        let all: Vec<Arc<Stored>> = registry.store.list(&storage, None).cloned().collect();
        let active = |one: &&Arc<Stored>| records::is_active(one.lean());
        let active: Vec<&Arc<Stored>> = all.iter().filter(active).collect();
        let is_active = |uid: &str| active.iter().any(|one| one.meta("uid") == uid);
        self.running.retain(|one| is_active(&one.uid));
        for one in active {
            let uid = one.meta("uid");
            if !self.running.iter().any(|known| known.uid == uid) {
                self.running.push_back(RunningMigration {
                    name: Arc::clone(&one.name),
                    uid: uid.to_owned(),
                    waiting: None,
                    outcome: None,
                    failures: 0,
                    due: now.tick,
                });
            }
        }
    }
}

impl RunningMigration {
    /// Lists the objects of the migration, if this has not been done. Returns their storage; `None` if the migration
    /// has ended (then `outcome` is set) or has to wait.
    fn prepare(&mut self, registry: &mut Registry, now: MigratorTime) -> Option<StorageKey> {
        if self.outcome.is_some() {
            return None;
        }
        let Some(found) = registry.migration(&self.name) else {
            // The StorageVersionMigration was deleted. The next call of `admit` removes it from `running`.
            self.delay(now);
            return None;
        };
        let Some(resource) = registry.migrated_resource(found.lean()) else {
            match left_until_discovery(&found, now.wall) {
                Some(left) => self.due = now.tick.saturating_add(left),
                None => self.fail("resource does not exist in discovery"),
            }
            return None;
        };
        let verbs = ["list", "patch", "update"];
        if !verbs.iter().all(|verb| resource.verbs.contains(verb)) {
            self.fail("resource is not migratable");
            return None;
        }
        if self.waiting.is_none() {
            let Ok(listed) = registry.list_candidates(&found, &resource) else {
                self.delay(now);
                return None;
            };
            self.waiting = Some(listed);
        }
        if self.waiting.as_ref().is_some_and(VecDeque::is_empty) {
            self.outcome = Some(Ok(()));
            return None;
        }
        Some(resource.storage.clone())
    }

    fn fail(&mut self, why: &str) {
        self.outcome = Some(Err(why.to_owned()));
    }

    fn delay(&mut self, now: MigratorTime) {
        self.failures += 1;
        self.due = now.tick.saturating_add(backoff(self.failures));
    }
}

/// Returns the time that a migration still waits for its resource to be served; `None` if [`DISCOVERY`] is over.
fn left_until_discovery(migration: &Stored, now: Timestamp) -> Option<Duration> {
    let made: Timestamp = migration.meta("creationTimestamp").parse().ok()?;
    let end = made.saturating_add(DISCOVERY).ok()?;
    let left = end.duration_since(now);
    (left > SignedDuration::ZERO).then(|| left.unsigned_abs())
}

fn backoff(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    BACKOFF.saturating_mul(doubled).min(MOST_BACKOFF)
}
