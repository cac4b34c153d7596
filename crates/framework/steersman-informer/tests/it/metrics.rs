//! Metrics after known events.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use prometheus::Registry;
use steersman_informer::{InformerMetrics, InformerOptions};

use super::fake::*;

/// Returns every series as `name label… value`, a histogram as `name label… count sum`, without the
/// label of the kind.
fn shown(registry: &Registry) -> Vec<String> {
    let mut shown = Vec::new();
    for family in registry.gather() {
        for metric in family.get_metric() {
            assert_eq!(metric.get_label()[0].value(), "ConfigMap.v1");
            let mut text = family.name().to_owned();
            for label in metric.get_label().iter().skip(1) {
                text = format!("{text} {}", label.value());
            }
            let histogram = metric.get_histogram();
            let value = match family.get_field_type() {
                prometheus::proto::MetricType::HISTOGRAM => {
                    let (count, sum) = (histogram.get_sample_count(), histogram.get_sample_sum());
                    format!("{count} {sum:.3}")
                }
                prometheus::proto::MetricType::COUNTER => {
                    metric.get_counter().get_value().to_string()
                }
                _ => metric.get_gauge().get_value().to_string(),
            };
            shown.push(format!("{text} {value}"));
        }
    }
    shown
}

fn counted() -> (Registry, InformerOptions) {
    let registry = Registry::new();
    let metrics = InformerMetrics::register(&registry).unwrap();
    assert!(InformerMetrics::register(&registry).is_err());
    (registry, listing().metrics(metrics))
}

fn of(registry: &Registry, name: &str) -> Vec<String> {
    let shown = shown(registry).into_iter();
    shown.filter(|line| line.starts_with(name)).collect()
}

#[tokio::test(start_paused = true)]
async fn requests_events_and_objects_are_counted() {
    let (registry, options) = counted();
    let fake = Fake::new();
    fake.list_refused(429, "TooManyRequests");
    fake.page("10", [good("a", 1), good("b", 2), bad("p", 3)]);
    let (wire, busy, short, _last) = (fake.watch(), fake.watch(), fake.watch(), fake.watch());
    let running = run(&fake, options);
    fake.request(3).await;
    for event in [modified("a", 11), deleted("a", 12), bookmark(20)] {
        wire.unbounded_send(event).unwrap();
    }
    running.applied(20).await;
    tokio::time::advance(Duration::from_secs(40)).await;
    drop(wire);
    // Two watches end at once, one of them without an event. A pause follows each.
    fake.request(4).await;
    busy.unbounded_send(bookmark(21)).unwrap();
    running.applied(21).await;
    drop(busy);
    fake.request(5).await;
    drop(short);
    fake.request(6).await;
    let length = |map: &str| raw_length(map);
    let expected = [
        "reflector_items_per_list 1 3.000".to_owned(),
        "reflector_items_per_watch 3 4.000".to_owned(),
        "reflector_last_resource_version 21".to_owned(),
        "reflector_list_duration_seconds 1 0.000".to_owned(),
        "reflector_lists_total 2".to_owned(),
        "reflector_short_watches_total 1".to_owned(),
        "reflector_watch_duration_seconds 3 40.000".to_owned(),
        "reflector_watches_total 4".to_owned(),
        format!("steersman_informer_bytes {}", length("b")),
        "steersman_informer_event_latency_seconds 3 0.000".to_owned(),
        "steersman_informer_events_total created 2".to_owned(),
        "steersman_informer_events_total deleted 1".to_owned(),
        "steersman_informer_events_total updated 1".to_owned(),
        "steersman_informer_malformed_objects 1".to_owned(),
        "steersman_informer_objects 1".to_owned(),
        "steersman_informer_queued_deltas 0".to_owned(),
        "steersman_informers synced 1".to_owned(),
        "steersman_reflector_failures_total short_watch 1".to_owned(),
        "steersman_reflector_failures_total throttled 1".to_owned(),
    ];
    let mut shown = shown(&registry);
    // Other tests cover packing.
    let others = ["_age_", "_packed_", "_decoded_", "_unpacks_", "_evictions_"];
    shown.retain(|line| !others.iter().any(|other| line.contains(other)));
    assert_eq!(shown, expected);
}

/// Returns the length of the JSON of a map with this name.
fn raw_length(name: &str) -> usize {
    serde_json::to_vec(&map(name, 2)).unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn ages_grow_until_the_next_event_or_bookmark() {
    let (registry, options) = counted();
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let running = run(&fake, options);
    fake.request(2).await;
    let ages = || of(&registry, "steersman_informer_last_");
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(ages(), ["steersman_informer_last_event_age_seconds 5"]);
    wire.unbounded_send(bookmark(11)).unwrap();
    running.applied(11).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    let both = [
        "steersman_informer_last_bookmark_age_seconds 2",
        "steersman_informer_last_event_age_seconds 7",
    ];
    assert_eq!(ages(), both);
    wire.unbounded_send(added("a", 12)).unwrap();
    running.applied(12).await;
    let both = [
        "steersman_informer_last_bookmark_age_seconds 2",
        "steersman_informer_last_event_age_seconds 0",
    ];
    assert_eq!(ages(), both);
}

/// A delta waits until the store has it, and a dropped informer has no series.
#[tokio::test(start_paused = true)]
async fn waiting_deltas_are_shown_and_dropped_informers_are_not() {
    let (registry, options) = counted();
    let fake = Fake::new();
    fake.page("10", []);
    let wire = fake.watch();
    let running = run(&fake, options);
    let waiting: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, asked) = (Arc::clone(&waiting), registry.clone());
    let look = move |_: &ConfigMap| {
        seen.lock().extend(of(&asked, "steersman_informer_queued_"));
        Vec::new()
    };
    running.informer.add_index("look", look).unwrap();
    fake.request(2).await;
    for event in [added("a", 11), added("b", 12)] {
        wire.unbounded_send(event).unwrap();
    }
    running.applied(12).await;
    // The second delta shows that the first still waits.
    let then = waiting.lock().last().cloned();
    assert_eq!(then.as_deref(), Some("steersman_informer_queued_deltas 1"));
    let queued = of(&registry, "steersman_informer_queued_");
    assert_eq!(queued, ["steersman_informer_queued_deltas 0"]);

    assert_eq!(of(&registry, "steersman_informers").len(), 1);
    running.task.abort();
    let mut states = running.informer.state_changes();
    let stopped = |state: &steersman_informer::InformerState| {
        *state == steersman_informer::InformerState::Stopped
    };
    states.wait_for(stopped).await.unwrap();
    for name in ["steersman_informers", "steersman_informer_objects"] {
        assert!(of(&registry, name).is_empty(), "{:?}", of(&registry, name));
    }
}
