//! The operator survives crashes, lost answers and old states at each of its requests.

use std::time::Duration;

use cronjob_operator::controller;
use cronjob_operator::cron_job::CronJob;
use serde_json::{Value, json};
use steersman::ObjectKey;
use steersman_harness::{OperatorTest, PerturbationKind, Scenario};
use steersman_testenv::apiserver::play::{Played, Speed};

use crate::world::{NAME, at};

/// The interval of the schedule: much longer than what perturbations delay, so that each world starts the same Jobs.
const INTERVAL: Duration = Duration::from_secs(600);

#[tokio::test]
async fn no_crash_and_no_old_state_starts_a_job_twice_or_never() {
    let key = ObjectKey::namespaced("default", NAME);
    let scenario = scenario("cronjob")
        .apply(cron())
        .quiet()
        .pass(INTERVAL)
        .quiet()
        // The first Job is beyond the limit of the history when the second one has completed.
        .pass(INTERVAL)
        .quiet()
        .merge::<CronJob>(&key, json!({"spec": {"suspend": true}}))
        .pass(INTERVAL)
        .quiet()
        .delete::<CronJob>(&key)
        .perturbations(PerturbationKind::all().filter(|kind| !is_of_history(*kind)));
    explore(scenario).await;
}

/// A Job that a user deletes is not started again, and a CronJob that is created again has no history. So states on the
/// way differ, and the end is the same.
#[tokio::test]
async fn a_deleted_job_and_a_new_cron_job_start_no_job_twice_and_leave_none() {
    let key = ObjectKey::namespaced("default", NAME);
    let scenario = scenario("cronjob with users")
        .apply(cron())
        .pass(INTERVAL)
        .pass(INTERVAL)
        .delete::<CronJob>(&key)
        .perturbations(PerturbationKind::all().filter(|kind| is_of_history(*kind)));
    explore(scenario).await;
}

fn is_of_history(kind: PerturbationKind) -> bool {
    matches!(kind, PerturbationKind::Interfere | PerturbationKind::Missed)
}

fn scenario(name: &str) -> Scenario {
    let speed = || Speed::brisk().complete(Duration::from_secs(5));
    Scenario::new(name)
        .on_server(move |server| {
            let server = server.starts_at(at("10:00:30"));
            server.play(Played::everything().speed(speed()))
        })
        // A Job takes longer than the default.
        .quiet_for(Duration::from_secs(10))
        .always("one Job runs at a time", ONE_ACTIVE_JOB)
}

async fn explore(scenario: Scenario) {
    let operator = OperatorTest::declared(controller::declare).crd_of::<CronJob>();
    let report = operator.explore(scenario).await.unwrap();
    assert!(!report.points.is_empty(), "{}", report.summary());
}

/// The names of Jobs follow from their times, so that two Jobs of one time cannot exist; two that run at once can.
const ONE_ACTIVE_JOB: &str = "objects.filter(one, one.kind == 'Job' && \
                              !(has(one.status) && has(one.status.completionTime))).size() <= 1";

/// Returns a `CronJob` with a Job in each [`INTERVAL`].
fn cron() -> Value {
    json!({
        "apiVersion": "batch.example.com/v1",
        "kind": "CronJob",
        "metadata": {"name": NAME, "namespace": "default"},
        "spec": {
            "schedule": "*/10 * * * *",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {"spec": {
                "backoffLimit": 0,
                "template": {"spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "busybox:1.37", "args": ["true"]}],
                }},
            }},
        },
    })
}
