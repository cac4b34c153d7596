//! An operator that stops, or fails half-way, starts no Job twice and makes up for the last missed time.

use steersman_testenv::apiserver::faults::{Answer, Verb};

use crate::world::{condition, started, times, until};

#[tokio::test(start_paused = true)]
async fn a_job_with_a_status_that_was_not_written_starts_once() {
    let operator = started(|_| ()).await;
    let server = operator.server().unwrap();
    until(&operator, "10:00:50").await;
    let status = "cronjobs.batch.example.com/status";
    let fault = server
        .faults()
        .answer(Verb::Patch, status, Answer::code(500).times(3));
    until(&operator, "10:02:30").await;
    drop(fault);
    let created = server
        .requests()
        .count(|request| request.does(Verb::Create) && request.is_for("jobs.batch"));
    assert_eq!(created, 2);
    assert_eq!(times(&operator).await, ["10:01", "10:02"]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_cache_has_not_seen_is_found_by_its_name() {
    let mut operator = started(|_| ()).await;
    let server = operator.server().unwrap().clone();
    until(&operator, "10:00:50").await;
    // The operator stops after the creation of a Job, and before it wrote the status.
    let status = "cronjobs.batch.example.com/status";
    let fault = server
        .faults()
        .answer(Verb::Patch, status, Answer::code(500));
    until(&operator, "10:01:00").await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    operator.halt().await.unwrap();
    drop(fault);
    operator.restart().await.unwrap();
    until(&operator, "10:01:30").await;
    assert_eq!(times(&operator).await, ["10:01"]);
    operator.assert_settled().await.unwrap();
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn of_the_times_without_an_operator_the_last_one_is_made_up() {
    let mut operator = started(|_| ()).await;
    until(&operator, "10:01:30").await;
    operator.halt().await.unwrap();
    until(&operator, "10:30:20").await;
    operator.restart().await.unwrap();
    until(&operator, "10:30:40").await;
    assert_eq!(times(&operator).await, ["10:01", "10:30"]);
    operator.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_time_past_its_deadline_is_not_made_up() {
    let mut operator = started(|spec| spec.starting_deadline_seconds = Some(30)).await;
    until(&operator, "10:01:30").await;
    operator.halt().await.unwrap();
    until(&operator, "10:03:40").await;
    operator.restart().await.unwrap();
    until(&operator, "10:03:50").await;
    assert_eq!(times(&operator).await, ["10:01"]);
    let (reason, message) = condition(&operator).await;
    assert_eq!(reason, "MissedDeadline");
    assert!(message.contains("2026-07-15T10:03:00Z"), "{message}");
    until(&operator, "10:04:10").await;
    assert_eq!(times(&operator).await, ["10:01", "10:04"]);
    assert_eq!(condition(&operator).await.0, "Scheduled");
    operator.stop().await.unwrap();
}
