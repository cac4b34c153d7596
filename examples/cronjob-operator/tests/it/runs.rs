//! Jobs start at the times of the schedule, and end up in the history.

use std::time::Duration;

use cronjob_operator::cron_job::ConcurrencyPolicy;
use cronjob_operator::job::JobState::{Active, Complete, Failed};
use serde_json::json;
use steersman::cache::Settings;
use steersman::k8s_openapi::api::core::v1::Pod;
use steersman::k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use steersman::{CacheOptions, ListOptions};
use steersman_harness::RunningOperator;
use steersman_testenv::apiserver::play::EXIT_CODE;

use crate::world::{
    at, change_spec, condition, jobs, operator, server, started, status, times, until,
};

#[tokio::test(start_paused = true)]
async fn jobs_start_at_their_times_and_the_history_is_limited() {
    let mut operator = started(|spec| spec.successful_jobs_history_limit = 2).await;
    until(&operator, "10:00:59").await;
    assert!(jobs(&operator).await.is_empty());
    until(&operator, "10:01:01").await;
    assert_eq!(jobs(&operator).await, [("10:01".to_owned(), Active)]);
    let seen = status(&operator).await;
    assert_eq!(seen.active.len(), 1);
    assert_eq!(seen.last_schedule_time, Some(Time(at("10:01:00"))));
    assert_eq!(seen.last_successful_time, None);

    until(&operator, "10:04:30").await;
    let kept = ["10:03", "10:04"].map(|time| (time.to_owned(), Complete));
    assert_eq!(jobs(&operator).await, kept);
    let seen = status(&operator).await;
    assert!(seen.active.is_empty());
    assert_eq!(seen.last_schedule_time, Some(Time(at("10:04:00"))));
    assert!(
        seen.last_successful_time
            .is_some_and(|time| time.0 > at("10:04:00"))
    );
    // The Pods of deleted Jobs are deleted with them.
    let ours = ListOptions::new().namespace(operator.namespace());
    let pods = operator.client().live().list::<Pod>(&ours).await.unwrap();
    assert_eq!(pods.len(), 2);

    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_settled_reconcile_sends_no_request() {
    let minute = Duration::from_secs(60);
    let cache = CacheOptions::new().defaults(Settings::new().resync(minute));
    let operator = operator(|_| ()).server(server(Duration::from_secs(5)));
    let mut operator = operator.cache(cache).start().await.unwrap();
    until(&operator, "10:01:30").await;
    change_spec(&operator, json!({"suspend": true})).await;
    operator.tick_until_steady(100).await.unwrap();
    let (reconciles, requests) = (operator.reconciles(), operator.requests_sent().unwrap());
    // A resync requests the owner of the Job.
    tokio::time::sleep(2 * minute).await;
    assert!(operator.reconciles() > reconciles);
    assert_eq!(operator.requests_sent().unwrap(), requests);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_the_last_failed_jobs_are_kept() {
    let operator = started(|spec| {
        let template = spec.job_template.spec.get_or_insert_default();
        let pod = template.template.metadata.get_or_insert_default();
        let annotations = pod.annotations.get_or_insert_default();
        annotations.insert(EXIT_CODE.to_owned(), "3".to_owned());
    })
    .await;
    until(&operator, "10:03:30").await;
    assert_eq!(jobs(&operator).await, [("10:03".to_owned(), Failed)]);
    assert_eq!(status(&operator).await.last_successful_time, None);
    operator.stop().await.unwrap();
}

/// Starts the operator with Jobs that take 90 s.
async fn with_long_jobs(policy: ConcurrencyPolicy) -> RunningOperator {
    let operator = operator(move |spec| spec.concurrency_policy = policy);
    let operator = operator.server(server(Duration::from_secs(90)));
    operator.start().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn with_allow_jobs_overlap() {
    let operator = with_long_jobs(ConcurrencyPolicy::Allow).await;
    until(&operator, "10:02:10").await;
    let both = ["10:01", "10:02"].map(|time| (time.to_owned(), Active));
    assert_eq!(jobs(&operator).await, both);
    assert_eq!(status(&operator).await.active.len(), 2);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_forbid_a_job_waits_for_the_end_of_the_earlier_one() {
    let operator = with_long_jobs(ConcurrencyPolicy::Forbid).await;
    until(&operator, "10:02:10").await;
    assert_eq!(jobs(&operator).await, [("10:01".to_owned(), Active)]);
    assert_eq!(condition(&operator).await.0, "WaitingForJob");
    until(&operator, "10:02:45").await;
    let expected = [("10:01", Complete), ("10:02", Active)];
    assert_eq!(
        jobs(&operator).await,
        expected.map(|(time, state)| (time.to_owned(), state))
    );
    assert_eq!(condition(&operator).await.0, "Scheduled");
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_replace_the_earlier_job_is_deleted() {
    let operator = with_long_jobs(ConcurrencyPolicy::Replace).await;
    until(&operator, "10:03:10").await;
    assert_eq!(jobs(&operator).await, [("10:03".to_owned(), Active)]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_suspended_schedule_rests_and_resumes_with_the_last_time() {
    let mut operator = started(|_| ()).await;
    until(&operator, "10:01:30").await;
    change_spec(&operator, json!({"suspend": true})).await;
    until(&operator, "10:05:30").await;
    assert_eq!(times(&operator).await, ["10:01"]);
    assert_eq!(condition(&operator).await.0, "Suspended");
    operator.assert_settled().await.unwrap();
    change_spec(&operator, json!({"suspend": false})).await;
    until(&operator, "10:05:50").await;
    assert_eq!(times(&operator).await, ["10:01", "10:05"]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_schedule_is_that_of_its_time_zone() {
    let operator = started(|spec| {
        spec.schedule = "2 12 * * *".to_owned();
        spec.time_zone = Some("Europe/Berlin".to_owned());
    })
    .await;
    until(&operator, "10:10:00").await;
    assert_eq!(times(&operator).await, ["10:02"]);
    operator.stop().await.unwrap();
}
