//! The metrics in the output of a scrape.

use std::time::Duration;

use prometheus::{Registry, TextEncoder};
use steersman_workqueue::{AddOptions, Metrics, Priority, Queue, QueueOptions};

fn scrape(registry: &Registry) -> String {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap_or_default()
}

fn has(text: &str, metric: &str, value: &str) {
    let line = text.lines().find(|line| line.starts_with(metric));
    assert!(
        line.is_some_and(|line| line.ends_with(&format!(" {value}"))),
        "{metric}: {line:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_names_labels_and_values_of_client_go() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry, "website").unwrap();
    let queue = Queue::new(QueueOptions::new("website").metrics(metrics));
    for key in 0..3 {
        queue.add(key);
        queue.add(key);
    }
    queue.add_with(9, AddOptions::new().priority(Priority::LOW));
    tokio::time::advance(Duration::from_secs(2)).await;
    let held = queue.next().await.unwrap();
    tokio::time::advance(Duration::from_secs(3)).await;

    let labels = r#"controller="website",name="website""#;
    let text = scrape(&registry);
    has(
        &text,
        &format!(r#"workqueue_depth{{{labels},priority="0"}}"#),
        "2",
    );
    has(
        &text,
        &format!(r#"workqueue_depth{{{labels},priority="-100"}}"#),
        "1",
    );
    has(&text, &format!("workqueue_adds_total{{{labels}}}"), "4");
    has(
        &text,
        &format!("workqueue_unfinished_work_seconds{{{labels}}}"),
        "3",
    );
    has(
        &text,
        &format!("workqueue_longest_running_processor_seconds{{{labels}}}"),
        "3",
    );
    has(
        &text,
        &format!("workqueue_queue_duration_seconds_sum{{{labels}}}"),
        "2",
    );

    assert_eq!(held.backoff(), Duration::from_millis(5));
    let text = scrape(&registry);
    has(&text, &format!("workqueue_retries_total{{{labels}}}"), "1");
    has(
        &text,
        &format!("workqueue_work_duration_seconds_sum{{{labels}}}"),
        "3",
    );
    has(
        &text,
        &format!("workqueue_unfinished_work_seconds{{{labels}}}"),
        "0",
    );
    queue.shut_down();
    has(
        &scrape(&registry),
        &format!(r#"workqueue_depth{{{labels},priority="0"}}"#),
        "0",
    );
}

#[test]
fn two_queues_of_one_registry_need_two_names() {
    let registry = Registry::new();
    let _first = Metrics::new(&registry, "website").unwrap();
    let error = Metrics::new(&registry, "website").unwrap_err();
    assert!(error.to_string().contains("\"website\""), "{error}");
    assert!(Metrics::new(&registry, "workload").is_ok());
}

#[tokio::test(start_paused = true)]
async fn depth_labels_are_capped() {
    let registry = Registry::new();
    let metrics = Metrics::new(&registry, "many").unwrap();
    let queue = Queue::new(QueueOptions::new("many").metrics(metrics));
    for key in 0..40 {
        queue.add_with(key, AddOptions::new().priority(Priority::new(key)));
    }
    let text = scrape(&registry);
    let lines = text
        .lines()
        .filter(|line| line.starts_with("workqueue_depth{"))
        .count();
    assert_eq!(lines, 26);
    assert!(text.contains(r#"priority="exceeded_cardinality_limit"} 15"#));
}
