//! The operator over HTTPS, or on an existing cluster, in real time.

use std::time::Duration;

use cronjob_operator::cron_job::CronJob;
use cronjob_operator::job::JobState;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::Authorization;
use steersman_testenv::apiserver::play::{Played, Speed};

use crate::world::{change_spec, jobs, operator, read, status};

/// A schedule with times of minutes takes too long for a test, so the status says that a time was missed.
#[tokio::test]
async fn a_missed_time_starts_a_job_over_the_network() {
    let simulator = ApiServer::builder()
        .authorization(Authorization::Rbac)
        .play(Played::everything().speed(Speed::brisk()))
        .build();
    let operator = operator(|spec| spec.suspend = true)
        .server(simulator)
        .over_network()
        .in_own_namespace();
    let mut operator = operator.start().await.unwrap();
    operator.tick_until_steady(1_000).await.unwrap();

    let cron = read(&operator).await;
    let before = Timestamp::now()
        .checked_sub(SignedDuration::from_mins(2))
        .unwrap();
    let missed = |cron: &mut CronJob| {
        cron.status.get_or_insert_default().last_schedule_time = Some(Time(before));
    };
    let client = operator.client();
    client.status().modify(&cron, missed).await.unwrap();
    change_spec(&operator, json!({"suspend": false})).await;
    let patience = Duration::from_secs(120);
    let has_jobs = operator.server().is_some() || operator.env().has_controllers();
    let job = operator
        .expect("a Job that ends")
        .within(patience)
        .about_in(operator.namespace(), "jobs.batch")
        .eventually(|| async {
            let jobs = jobs(&operator).await;
            let is_done = |state| state == JobState::Complete || !has_jobs;
            match jobs.iter().any(|(_, state)| is_done(*state)) {
                true => Ok(()),
                false => Err(format!("{jobs:?}")),
            }
        });
    job.await.unwrap();
    change_spec(&operator, json!({"suspend": true})).await;
    operator.tick_until_steady(1_000).await.unwrap();
    let seen = status(&operator).await;
    assert!(seen.last_schedule_time.is_some_and(|last| last.0 > before));
    assert_eq!(seen.last_successful_time.is_some(), has_jobs);
    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}
