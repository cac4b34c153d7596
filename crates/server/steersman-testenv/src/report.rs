//! Machine: formats the report of a failed wait.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use steersman_apiserver::faults::{RequestRecord, Verb};

use crate::rest::AGENT;

const REQUESTS: usize = 15;
const OBJECTS: usize = 10;
/// The number of kinds in a report without named kinds.
const KINDS: usize = 3;

/// Returns the kinds that were written last, for a report without named kinds.
pub(crate) fn written(records: &[RequestRecord]) -> Vec<String> {
    let mut kinds: Vec<String> = Vec::new();
    for record in records.iter().rev().filter(|record| is_write(record)) {
        let mut kind = record.resource.clone();
        if !record.group.is_empty() {
            kind = format!("{kind}.{}", record.group);
        }
        if record.user_agent != AGENT && !kinds.contains(&kind) {
            kinds.push(kind);
        }
        if kinds.len() == KINDS {
            break;
        }
    }
    kinds
}

fn is_write(record: &RequestRecord) -> bool {
    let reads = [Verb::Get, Verb::List, Verb::Watch];
    record.verb.is_some_and(|verb| !reads.contains(&verb))
}

pub(crate) fn requests(records: &[RequestRecord]) -> String {
    let others = records.iter().filter(|record| record.user_agent != AGENT);
    let others: Vec<&RequestRecord> = others.collect();
    let (all, last) = (others.len(), others.len().min(REQUESTS));
    if all == 0 {
        return "requests to the server: none\n".to_owned();
    }
    let mut text = format!("requests to the server (the last {last} of {all}, newest last):\n");
    for record in &others[all - last..] {
        let _ = writeln!(text, "  {record}");
    }
    text
}

pub(crate) fn objects(resource: &str, items: &[Value]) -> String {
    let mut text = format!("{resource}: {}\n", items.len());
    for item in items.iter().take(OBJECTS) {
        let _ = writeln!(text, "  {}", object(item));
    }
    if items.len() > OBJECTS {
        let _ = writeln!(text, "  and {} more", items.len() - OBJECTS);
    }
    text
}

fn object(object: &Value) -> String {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{}", text(&metadata["name"])),
        None => text(&metadata["name"]),
    };
    let version = format!("version {}", text(&metadata["resourceVersion"]));
    let mut words = vec![name, version];
    if let Some(generation) = metadata["generation"].as_i64() {
        words.push(match object["status"]["observedGeneration"].as_i64() {
            Some(observed) => format!("generation {generation} (observed {observed})"),
            None => format!("generation {generation}"),
        });
    }
    if let Some(since) = metadata["deletionTimestamp"].as_str() {
        words.push(format!("being deleted since {since}"));
        if let Some(finalizers) = metadata["finalizers"].as_array() {
            let names: Vec<String> = finalizers.iter().map(text).collect();
            words.push(format!("held by {}", names.join(" ")));
        }
    }
    for (name, value) in object["status"].as_object().into_iter().flatten() {
        let telling = name == "phase" || name.to_lowercase().ends_with("replicas");
        if telling && !value.is_null() && !value.is_object() {
            words.push(format!("{name} {}", plain(value)));
        }
    }
    let conditions = object["status"]["conditions"].as_array().into_iter();
    for condition in conditions.flatten() {
        let (kind, status) = (text(&condition["type"]), text(&condition["status"]));
        let mut word = format!("{kind}={status}");
        if let Some(reason) = condition["reason"].as_str().filter(|one| !one.is_empty()) {
            let _ = write!(word, " ({reason})");
        }
        words.push(word);
    }
    words.join(", ")
}

fn plain(value: &Value) -> String {
    let text = value.as_str();
    text.map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats the results of reconciles and the depths of queues, by controller.
pub(crate) fn metrics(registry: &prometheus::Registry) -> String {
    let mut lines: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for family in registry.gather() {
        let (by, value_of) = match family.name() {
            "controller_runtime_reconcile_total" => ("controller", "result"),
            "workqueue_depth" => ("name", ""),
            _ => continue,
        };
        for metric in family.get_metric() {
            let label = |name: &str| {
                let mut labels = metric.get_label().iter();
                Some(labels.find(|label| label.name() == name)?.value())
            };
            // One of the two is zero, because a metric has one type.
            let value = metric.get_counter().get_value() + metric.get_gauge().get_value();
            if value == 0.0 {
                continue;
            }
            let what = label(value_of).unwrap_or("waiting");
            let line = lines.entry(label(by).unwrap_or_default().to_owned());
            line.or_default().push(format!("{value} {what}"));
        }
    }
    let mut text = String::new();
    for (controller, counts) in lines {
        let _ = writeln!(text, "  {controller}: {}", counts.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_one_line_with_its_most_useful_fields() {
        let site = json!({
            "metadata": {"namespace": "web", "name": "home", "resourceVersion": "17",
                "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "finalizers": ["example.com/dns", "example.com/cdn"]},
            "spec": {"replicas": 2},
            "status": {"observedGeneration": 2, "phase": "Pending", "readyReplicas": 1,
                "conditions": [{"type": "Ready", "status": "False", "reason": "NoPages"}]},
        });
        assert_eq!(
            object(&site),
            "web/home, version 17, generation 3 (observed 2), being deleted since \
             2026-01-01T00:00:00Z, held by example.com/dns example.com/cdn, phase Pending, \
             readyReplicas 1, Ready=False (NoPages)"
        );
        assert_eq!(object(&json!({})), ", version ");
    }

    #[test]
    fn a_long_list_of_objects_is_truncated() {
        let many = vec![json!({"metadata": {"name": "a", "resourceVersion": "1"}}); 12];
        let text = objects("nodes", &many);
        assert!(text.starts_with("nodes: 12\n  a, version 1\n"), "{text}");
        assert!(text.ends_with("  and 2 more\n"), "{text}");
    }

    #[test]
    fn metrics_are_formatted_by_controller() {
        let registry = prometheus::Registry::new();
        let options = prometheus::Opts::new("controller_runtime_reconcile_total", "help");
        let total = prometheus::CounterVec::new(options, &["controller", "result"]).unwrap();
        registry.register(Box::new(total.clone())).unwrap();
        let options = prometheus::Opts::new("workqueue_depth", "help");
        let depth = prometheus::GaugeVec::new(options, &["name"]).unwrap();
        registry.register(Box::new(depth.clone())).unwrap();
        total.with_label_values(&["website", "error"]).inc_by(3.0);
        total.with_label_values(&["website", "success"]).inc();
        total.with_label_values(&["website", "requeue"]);
        depth.with_label_values(&["website"]).set(2.0);
        assert_eq!(
            metrics(&registry),
            "  website: 3 error, 1 success, 2 waiting\n"
        );
    }
}
