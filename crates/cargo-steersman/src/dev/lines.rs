//! Machine: the lines that show what an operator does.

use std::collections::BTreeMap;

use serde_json::Value;
use steersman_testenv::apiserver::faults::{RequestRecord, Verb};

/// The lines about the objects of the operator's kinds. One line per object is shown again when it changes.
#[derive(Debug, Default)]
pub(crate) struct ObjectLines {
    /// The last line of each object, by its kind and key.
    last: BTreeMap<String, String>,
}

/// How far an object says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
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
pub(crate) fn readiness(object: &Value) -> Readiness {
    let Some(ready) = ready_condition(object) else {
        return Readiness::Unknown;
    };
    let generation = &object["metadata"]["generation"];
    let observed = &ready["observedGeneration"];
    let is_present = observed.is_null() || observed == generation;
    match ready["status"] == "True" && is_present {
        true => Readiness::Ready,
        false => Readiness::NotReady,
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
        Readiness::Ready => "is ready",
        _ => "is not ready",
    };
    format!("{is}: {}: {}", text("reason"), text("message"))
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
            (1, ready("True", 1), Readiness::Ready),
            (2, ready("True", 1), Readiness::NotReady),
            (1, ready("Unknown", 1), Readiness::NotReady),
            (1, json!([]), Readiness::Unknown),
            (1, json!("broken"), Readiness::Unknown),
        ] {
            assert_eq!(readiness(&object(generation, &conditions)), expected);
        }
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
}
