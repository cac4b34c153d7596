//! Tests of CronJobs.

use std::time::Duration;

use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::play::{Played, PodFailure, Speed};

use super::{names, pod_spec, status};

const BEGIN: &str = "2026-01-01T00:00:30Z";

fn server(speed: Speed) -> ApiServer {
    ApiServer::builder()
        .play(Played::everything().speed(speed))
        .starts_at(BEGIN.parse().unwrap())
        .build()
}

fn cron_job(spec: &Value) -> Value {
    let mut pod = pod_spec("work:1");
    pod["restartPolicy"] = json!("Never");
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {
                "metadata": {"labels": {"of": "tick"}},
                "spec": {"backoffLimit": 0, "template": {"spec": pod}},
            },
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    cron
}

fn jobs(server: &ApiServer) -> Vec<String> {
    names(&server.list("jobs.batch", "default"))
}

fn tick(server: &ApiServer) -> Value {
    status(server, "cronjobs.batch", "tick")
}

async fn minutes(many: u64) {
    tokio::time::sleep(Duration::from_secs(60 * many)).await;
}

/// Minutes since the epoch at midnight of the first day.
const MIDNIGHT: i64 = 29_453_760;

#[tokio::test(start_paused = true)]
async fn a_job_starts_at_each_time_and_the_newest_are_kept() {
    let server = server(Speed::brisk());
    server.create(cron_job(&json!({}))).unwrap();
    minutes(4).await;
    assert!(jobs(&server).is_empty());
    tokio::time::sleep(Duration::from_millis(30_500)).await;
    let name = format!("tick-{}", MIDNIGHT + 5);
    assert_eq!(jobs(&server), std::slice::from_ref(&name));
    let job = server.get("jobs.batch", "default", &name).unwrap();
    assert_eq!(
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T00:05:00Z"
    );
    assert_eq!(job["metadata"]["labels"]["of"], "tick");
    assert_eq!(job["metadata"]["ownerReferences"][0]["kind"], "CronJob");
    let found = tick(&server);
    assert_eq!(found["lastScheduleTime"], "2026-01-01T00:05:00Z");
    assert_eq!(found["active"][0]["name"], *name);
    assert_eq!(found["active"][0]["uid"], job["metadata"]["uid"]);
    minutes(1).await;
    let found = tick(&server);
    assert!(found.get("active").is_none());
    assert_eq!(found["lastSuccessfulTime"], "2026-01-01T00:05:01Z");
    minutes(25).await;
    let kept: Vec<String> = [20, 25, 30]
        .map(|at| format!("tick-{}", MIDNIGHT + at))
        .into();
    assert_eq!(jobs(&server), kept);
    let reasons: Vec<Value> = server
        .list("events", "default")
        .iter()
        .filter(|event| event["involvedObject"]["kind"] == "CronJob")
        .map(|event| event["reason"].clone())
        .collect();
    for reason in ["SuccessfulCreate", "SawCompletedJob", "SuccessfulDelete"] {
        assert!(reasons.contains(&json!(reason)), "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_concurrency_policy_allows_forbids_or_replaces_a_running_job() {
    for (policy, expected) in [
        ("Allow", vec![5, 10, 15]),
        ("Forbid", vec![5]),
        ("Replace", vec![15]),
    ] {
        let server = server(Speed::instant().complete(Duration::from_secs(3_600)));
        server
            .create(cron_job(&json!({"concurrencyPolicy": policy})))
            .unwrap();
        minutes(17).await;
        let expected: Vec<String> = expected
            .into_iter()
            .map(|at| format!("tick-{}", MIDNIGHT + at))
            .collect();
        assert_eq!(jobs(&server), expected, "{policy}");
        let active = tick(&server)["active"].as_array().unwrap().len();
        assert_eq!(active, expected.len(), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn zones_suspension_and_deadlines_count() {
    let server = server(Speed::brisk());
    let spec = json!({"schedule": "0 9 * * *", "timeZone": "Asia/Kolkata", "suspend": true});
    server.create(cron_job(&spec)).unwrap();
    minutes(240).await;
    assert!(jobs(&server).is_empty());
    // Half an hour late, with a deadline of ten minutes: the next Job starts on the next day.
    let patch = json!({"spec": {"suspend": false, "startingDeadlineSeconds": 600}});
    server
        .merge_patch("cronjobs.batch", "default", "tick", &patch)
        .unwrap();
    minutes(1).await;
    assert!(jobs(&server).is_empty());
    // Without a deadline the missed Job is started.
    let patch = json!({"spec": {"startingDeadlineSeconds": null}});
    server
        .merge_patch("cronjobs.batch", "default", "tick", &patch)
        .unwrap();
    minutes(1).await;
    let found = server.list("jobs.batch", "default");
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-01-01T09:00:00+05:30"
    );
    minutes(24 * 60).await;
    assert_eq!(jobs(&server).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_failed_job_is_kept() {
    let server = server(Speed::brisk());
    let _bad = server
        .simulator()
        .fail_pods("", "", PodFailure::Failed)
        .unwrap();
    server.create(cron_job(&json!({}))).unwrap();
    minutes(21).await;
    assert_eq!(jobs(&server), [format!("tick-{}", MIDNIGHT + 20)]);
    assert!(tick(&server).get("lastSuccessfulTime").is_none());
    server.delete("cronjobs.batch", "default", "tick").unwrap();
    minutes(10).await;
    assert!(jobs(&server).is_empty());
    assert!(server.list("pods", "default").is_empty());
}
