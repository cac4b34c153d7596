//! Machine: the lines that report the activity of an operator without a terminal view.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_description::Description;
use steersman_object::{json_items, json_text};
use steersman_testenv::apiserver::faults::RequestRecord;

use super::view::requests::{ViewRequest, target};
use super::view::snapshot::ReconcileRow;

/// The last printed line of each object. A line is printed again when it changes.
#[derive(Debug, Default)]
pub(crate) struct ObjectLines {
    last: BTreeMap<String, String>,
}

impl ObjectLines {
    /// Returns the lines that have changed since the last call. `objects` are all existing objects.
    pub(crate) fn changed(&mut self, objects: &[Value]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut now = BTreeMap::new();
        for object in objects {
            let name = name_of(object);
            let line = format!("{name} {}", state(object));
            if self.last.get(&name) != Some(&line) {
                lines.push(line.clone());
            }
            now.insert(name, line);
        }
        let gone = self.last.keys().filter(|name| !now.contains_key(*name));
        lines.extend(gone.map(|name| format!("{name} is gone")));
        self.last = now;
        lines
    }
}

/// The lines about the finished reconciles of one process. Each reconcile is reported once.
#[derive(Debug, Default)]
pub(crate) struct ReconcileLines {
    seen: BTreeSet<(String, u64)>,
}

impl ReconcileLines {
    /// Returns the lines about the reconciles that have ended since the last call.
    pub(crate) fn new_ones(&mut self, reconciles: &[ReconcileRow]) -> Vec<String> {
        let id = |row: &ReconcileRow| (row.controller.clone(), row.id);
        let new = reconciles
            .iter()
            .filter(|row| !self.seen.contains(&id(row)));
        let lines = new.map(reconcile_line).collect();
        self.seen = reconciles.iter().map(id).collect();
        lines
    }
}

fn reconcile_line(row: &ReconcileRow) -> String {
    let took = row.took.as_secs_f64() * 1000.0;
    let colon = if row.message.is_empty() { "" } else { ": " };
    let (controller, request, result) = (&row.controller, &row.request, &row.result);
    let (message, reason) = (&row.message, &row.reason);
    format!("{controller} {request}: {result} after {took:.1} ms{colon}{message} ({reason})")
}

/// Returns the line about a request of the operator; `None` for a successful read.
pub(crate) fn request_line(record: &RequestRecord, program: &str) -> Option<String> {
    let status = record.status.filter(|_| is_of(record, program))?;
    let request = ViewRequest::of(record)?;
    let outcome = match request.is_refused() {
        true => format!(": refused with {status}"),
        false if request.is_read() => return None,
        false => String::new(),
    };
    let (verb, target) = (request.verb, target(record, &record.resource));
    Some(format!("{program}: {verb} {target}{outcome}"))
}

pub(crate) fn is_of(record: &RequestRecord, program: &str) -> bool {
    let rest = record.user_agent.strip_prefix(program);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns whether the condition `Ready` of an object is `True` and is about the current spec.
pub(crate) fn is_ready(object: &Value) -> bool {
    ready_condition(object).is_some_and(|ready| {
        let observed = &ready["observedGeneration"];
        let is_present = observed.is_null() || *observed == object["metadata"]["generation"];
        ready["status"] == "True" && is_present
    })
}

/// Returns the kind and the key of an object, such as `Greeting default/hello`.
pub(crate) fn name_of(object: &Value) -> String {
    let (kind, metadata) = (json_text(&object["kind"]), &object["metadata"]);
    let name = json_text(&metadata["name"]);
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn ready_condition(object: &Value) -> Option<&Value> {
    let mut conditions = json_items(&object["status"]["conditions"]);
    conditions.find(|condition| condition["type"] == "Ready")
}

fn state(object: &Value) -> String {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return "is being deleted".to_owned();
    }
    let Some(ready) = ready_condition(object) else {
        return "has no condition Ready".to_owned();
    };
    let not = if is_ready(object) { "" } else { "not " };
    let (reason, message) = (json_text(&ready["reason"]), json_text(&ready["message"]));
    format!("is {not}ready: {reason}: {message}")
}

/// Returns the lines about features of an operator that `dev` leaves out, because they need a server in the cluster.
pub(crate) fn left_out(description: &Description) -> Vec<String> {
    let mut lines = Vec::new();
    let why = "the API server of a cluster cannot call this machine";
    match description.webhooks.len() {
        0 => {}
        1 => lines.push(format!("its webhook is left out: {why}")),
        more => lines.push(format!("its {more} webhooks are left out: {why}")),
    }
    if !description.converted.is_empty() {
        lines.push(format!(
            "its definitions are left as they are, because their conversion is a webhook: {why}; \
             install them with `cargo steersman deploy`"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(generation: i64, conditions: &Value) -> Value {
        json!({
            "kind": "Greeting",
            "metadata": {"namespace": "default", "name": "a", "generation": generation},
            "status": {"conditions": conditions},
        })
    }

    fn ready(status: &str, observed: i64) -> Value {
        json!([{"type": "Ready", "status": status, "observedGeneration": observed,
            "reason": "Published", "message": "it is there"}])
    }

    #[test]
    fn a_condition_of_an_earlier_spec_is_not_ready() {
        for (generation, conditions, expected) in [
            (1, ready("True", 1), true),
            (2, ready("True", 1), false),
            (1, ready("Unknown", 1), false),
            (1, json!([]), false),
            (1, json!("broken"), false),
        ] {
            assert_eq!(is_ready(&object(generation, &conditions)), expected);
        }
    }

    #[test]
    fn a_reconcile_is_shown_once() {
        let row = |id, result: &str, message: &str| ReconcileRow {
            controller: "greeting".to_owned(),
            id,
            request: "default/a".to_owned(),
            reason: "a change".to_owned(),
            result: result.to_owned(),
            message: message.to_owned(),
            took: std::time::Duration::from_micros(1500),
            ended: crate::dev::clock::now(),
        };
        let mut lines = ReconcileLines::default();
        // The second reconcile ended before the first.
        let both = [row(2, "error", "no"), row(1, "success", "")];
        let expected = [
            "greeting default/a: error after 1.5 ms: no (a change)",
            "greeting default/a: success after 1.5 ms (a change)",
        ];
        assert_eq!(lines.new_ones(&both), expected);
        assert!(lines.new_ones(&both).is_empty());
        let third = [both[1].clone(), row(3, "success", "")];
        assert_eq!(lines.new_ones(&third).len(), 1);
    }

    #[test]
    fn an_object_is_shown_when_it_changes() {
        let mut lines = ObjectLines::default();
        let new = object(1, &Value::Null);
        assert_eq!(
            lines.changed(std::slice::from_ref(&new)),
            ["Greeting default/a has no condition Ready"]
        );
        assert!(lines.changed(&[new]).is_empty());
        let done = object(1, &ready("True", 1));
        assert_eq!(
            lines.changed(&[done]),
            ["Greeting default/a is ready: Published: it is there"]
        );
        assert_eq!(lines.changed(&[]), ["Greeting default/a is gone"]);
        assert!(lines.changed(&[]).is_empty());
    }

    #[test]
    fn what_a_cluster_cannot_call_is_named() {
        let pod = json!({"group": "", "version": "v1", "kind": "Pod", "plural": "pods",
            "namespaced": true});
        let description = |webhooks: Value, converted: Value| {
            let description = json!({"name": "a", "version": "1", "framework": "1",
                "definitions": [], "kinds": [], "controllers": [],
                "webhooks": webhooks, "converted": converted});
            serde_json::from_value(description).unwrap()
        };
        assert!(left_out(&description(json!([]), json!([]))).is_empty());
        let webhook = json!([{"path": "/mutate--v1-pod", "mutates": true, "object": pod}]);
        let converted = json!([{"group": "example.com", "version": "v1", "kind": "A"}]);
        let lines = left_out(&description(webhook, converted));
        assert!(lines[0].starts_with("its webhook is left out"), "{lines:?}");
        assert!(lines[1].contains("cargo steersman deploy"), "{lines:?}");
    }
}
