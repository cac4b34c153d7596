//! A running operator with one `CronJob`, and what can be seen of it.

use std::time::Duration;

use cronjob_operator::controller;
use cronjob_operator::cron_job::{CronJob, CronJobSpec, CronJobStatus};
use cronjob_operator::job::{self, JobState};
use jiff::Timestamp;
use serde_json::json;
use steersman::ListOptions;
use steersman::api::Patch;
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::status_conditions::{self, HasConditions as _, READY};
use steersman_harness::{OperatorTest, RunningOperator};
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::Authorization;
use steersman_testenv::apiserver::play::{Played, Speed};

/// The name of the `CronJob`.
pub(crate) const NAME: &str = "report";

/// Returns a server with a clock that begins at 10:00:30 and Jobs that take `run_time`.
pub(crate) fn server(run_time: Duration) -> ApiServer {
    let speed = Speed::brisk().complete(run_time);
    ApiServer::builder()
        .starts_at(at("10:00:30"))
        .authorization(Authorization::Rbac)
        .play(Played::everything().speed(speed))
        .build()
}

/// Returns a time of the day at which the servers begin.
pub(crate) fn at(time: &str) -> Timestamp {
    format!("2026-07-15T{time}Z").parse().unwrap()
}

/// Returns a `CronJob` with a Job each minute.
pub(crate) fn cron(namespace: &str) -> CronJob {
    let spec = json!({
        "schedule": "* * * * *",
        "jobTemplate": {"spec": {
            "backoffLimit": 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "busybox:1.37", "args": ["true"]}],
            }},
        }},
    });
    let mut cron = CronJob::new(NAME, serde_json::from_value(spec).unwrap());
    cron.metadata.namespace = Some(namespace.to_owned());
    cron
}

/// Declares the operator with one `CronJob`.
pub(crate) fn operator(change: impl FnOnce(&mut CronJobSpec) + Send + 'static) -> OperatorTest {
    OperatorTest::declared(controller::declare)
        .crd_of::<CronJob>()
        .before_start(move |prepared| async move {
            let mut cron = cron(prepared.namespace());
            change(&mut cron.spec);
            prepared.client().create(&cron).await?;
            Ok(())
        })
}

/// Starts the operator in process, with Jobs that take five seconds.
pub(crate) async fn started(
    change: impl FnOnce(&mut CronJobSpec) + Send + 'static,
) -> RunningOperator {
    let operator = operator(change).server(server(Duration::from_secs(5)));
    operator.start().await.unwrap()
}

/// Lets the paused clock advance to a time of the day.
pub(crate) async fn until(operator: &RunningOperator, time: &str) {
    let left = at(time).duration_since(operator.server().unwrap().now());
    tokio::time::sleep(left.try_into().unwrap()).await;
}

/// Reads the `CronJob` from the server.
pub(crate) async fn read(operator: &RunningOperator) -> CronJob {
    let key = operator.key(NAME);
    operator.client().live().get(&key).await.unwrap()
}

/// Reads the status from the server.
pub(crate) async fn status(operator: &RunningOperator) -> CronJobStatus {
    read(operator).await.status.unwrap()
}

/// Returns the reason and the message of the condition.
pub(crate) async fn condition(operator: &RunningOperator) -> (String, String) {
    let cron = read(operator).await;
    let condition = status_conditions::find(cron.conditions(), READY).unwrap();
    (condition.reason.clone(), condition.message.clone())
}

/// Changes the spec.
pub(crate) async fn change_spec(operator: &RunningOperator, spec: serde_json::Value) {
    let patch = Patch::Merge(json!({ "spec": spec }));
    let key = operator.key(NAME);
    operator
        .client()
        .patch::<CronJob>(&key, &patch)
        .await
        .unwrap();
}

/// Returns the Jobs on the server.
pub(crate) async fn all_jobs(operator: &RunningOperator) -> Vec<Job> {
    let ours = ListOptions::new().namespace(operator.namespace());
    operator.client().live().list::<Job>(&ours).await.unwrap()
}

/// Returns the scheduled times and the states of the Jobs, in the order of the times.
pub(crate) async fn jobs(operator: &RunningOperator) -> Vec<(String, JobState)> {
    let jobs = all_jobs(operator).await;
    let seen = jobs.iter().map(|job| {
        let time = job::scheduled_at(job).unwrap();
        assert_eq!(
            job.metadata.name,
            Some(job::job_name(&cron(""), time)),
            "the name follows from the time"
        );
        (time.strftime("%H:%M").to_string(), job::state(job))
    });
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by(|a, b| a.0.cmp(&b.0));
    seen
}

/// Returns the scheduled times of the Jobs.
pub(crate) async fn times(operator: &RunningOperator) -> Vec<String> {
    let jobs = jobs(operator).await.into_iter();
    jobs.map(|(time, _)| time).collect()
}
