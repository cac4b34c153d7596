//! Machine: the lines that show what an operator does.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use steersman_cli::Description;
use steersman_testenv::apiserver::faults::{RequestRecord, Verb};

use super::view::snapshot::ReconcileRow;

/// The lines about the objects of the operator's kinds. One line per object is shown again when it changes.
#[derive(Debug, Default)]
pub(crate) struct ObjectLines {
    /// The last line of each object, by its kind and key.
    last: BTreeMap<String, String>,
}

/// How far an object says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectReadiness {
    /// The condition `Ready` is `True`, for the present spec.
    Ready,
    /// The condition `Ready` is something else, or is about an earlier spec.
    NotReady,
    /// The object has no condition `Ready`.
    Unknown,
}

impl ObjectLines {
    /// Returns the lines that have changed since the last call, of all objects that exist.
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

/// The lines about the reconciles of one process, each once.
#[derive(Debug, Default)]
pub(crate) struct ReconcileLines {
    /// The reconciles of the last call, by controller and number.
    seen: BTreeSet<(String, u64)>,
}

impl ReconcileLines {
    /// Returns the lines about reconciles that have ended since the last call.
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
    let message = match row.message.is_empty() {
        true => String::new(),
        false => format!(": {}", row.message),
    };
    let (controller, request, result) = (&row.controller, &row.request, &row.result);
    let reason = &row.reason;
    format!("{controller} {request}: {result} after {took:.1} ms{message} ({reason})")
}

/// Returns the line about a request of the operator; `None` for a request that only reads and succeeds.
pub(crate) fn request_line(record: &RequestRecord, program: &str) -> Option<String> {
    let verb = record.verb?;
    let status = record.status.filter(|_| is_of(record, program))?;
    let is_read = matches!(verb, Verb::Get | Verb::List | Verb::Watch);
    // A read of an object that is not there is no failure, and an expired watch begins anew.
    let is_failed = status >= 400 && !(is_read && matches!(status, 404 | 410));
    if is_read && !is_failed {
        return None;
    }
    let mut what = record.resource.clone();
    if let Some(subresource) = &record.subresource {
        what = format!("{what}/{subresource}");
    }
    let place = match (&record.namespace, &record.name) {
        (Some(namespace), Some(name)) => format!(" {namespace}/{name}"),
        // The name is in the body of the request.
        (Some(namespace), None) => format!(" in {namespace}"),
        (None, Some(name)) => format!(" {name}"),
        (None, None) => String::new(),
    };
    let outcome = match is_failed {
        true => format!(": refused with {status}"),
        false => String::new(),
    };
    Some(format!("{program}: {verb} {what}{place}{outcome}"))
}

/// Returns whether a request is one of the program.
pub(crate) fn is_of(record: &RequestRecord, program: &str) -> bool {
    let rest = record.user_agent.strip_prefix(program);
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns how far an object says that it is.
pub(crate) fn readiness(object: &Value) -> ObjectReadiness {
    let Some(ready) = ready_condition(object) else {
        return ObjectReadiness::Unknown;
    };
    let generation = &object["metadata"]["generation"];
    let observed = &ready["observedGeneration"];
    let is_present = observed.is_null() || observed == generation;
    match ready["status"] == "True" && is_present {
        true => ObjectReadiness::Ready,
        false => ObjectReadiness::NotReady,
    }
}

/// Returns the kind and the key of an object, as in `Greeting default/hello`.
pub(crate) fn name_of(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    let name = text(&metadata["name"]);
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn ready_condition(object: &Value) -> Option<&Value> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions
        .iter()
        .find(|condition| condition["type"] == "Ready")
}

fn state(object: &Value) -> String {
    if !object["metadata"]["deletionTimestamp"].is_null() {
        return "is being deleted".to_owned();
    }
    let Some(ready) = ready_condition(object) else {
        return "has no condition Ready".to_owned();
    };
    let text = |name: &str| ready[name].as_str().unwrap_or_default();
    let is = match readiness(object) {
        ObjectReadiness::Ready => "is ready",
        _ => "is not ready",
    };
    format!("{is}: {}: {}", text("reason"), text("message"))
}

/// Returns the lines about the parts of an operator that need a server in the cluster.
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
            (1, ready("True", 1), ObjectReadiness::Ready),
            (2, ready("True", 1), ObjectReadiness::NotReady),
            (1, ready("Unknown", 1), ObjectReadiness::NotReady),
            (1, json!([]), ObjectReadiness::Unknown),
            (1, json!("broken"), ObjectReadiness::Unknown),
        ] {
            assert_eq!(readiness(&object(generation, &conditions)), expected);
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
        // The second one ended first.
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
