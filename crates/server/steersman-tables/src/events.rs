//! Machine: the columns of Events of both groups.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::cells::{number, text};
use super::columns::{Columns, Heading, shown, wide};

/// The columns of Events. The name is the last column.
pub(super) const EVENTS: Columns = Columns {
    headings: &[
        shown("Last Seen", "Time since the event was last observed."),
        shown("Type", "Normal or Warning."),
        shown("Reason", "Reason as a constant for programs."),
        shown("Object", "Object of the event."),
        wide("Subobject", "Part of the object."),
        wide("Source", "Component that reported the event."),
        shown("Message", "Description for people."),
        wide("First Seen", "Time since the event was first observed."),
        wide("Count", "Number of times the event was observed."),
        Heading {
            wide: true,
            ..Heading::NAME
        },
    ],
    row,
};

fn row(event: &Value, now: Timestamp) -> Value {
    // Reads a field by its name in the core group or in events.k8s.io.
    let either = |core: &str, newer: &str| event.get(core).or_else(|| event.get(newer));
    let moment = |value: Option<&Value>| {
        let text = value.filter(|value| value.is_string())?;
        Some(since(Some(text), now))
    };
    let first = moment(either("firstTimestamp", "deprecatedFirstTimestamp"))
        .unwrap_or_else(|| since(event.get("eventTime"), now));
    let mut last =
        moment(either("lastTimestamp", "deprecatedLastTimestamp")).unwrap_or_else(|| first.clone());
    let mut count = either("count", "deprecatedCount")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    if let Some(series) = event.get("series").filter(|series| series.is_object()) {
        last = since(series.get("lastObservedTime"), now);
        count = number(series, "count");
    } else if count == 0 {
        count = 1;
    }
    let object = either("involvedObject", "regarding").unwrap_or(&Value::Null);
    let mut target = text(object, "kind").to_lowercase();
    if !text(object, "name").is_empty() {
        target = format!("{target}/{}", text(object, "name"));
    }
    let message = either("message", "note").and_then(Value::as_str);
    json!([
        last,
        text(event, "type"),
        text(event, "reason"),
        target,
        text(object, "fieldPath"),
        source(event),
        message.unwrap_or_default().trim(),
        first,
        count,
        text(event, "metadata.name")
    ])
}

fn source(event: &Value) -> String {
    let old = event
        .get("source")
        .or_else(|| event.get("deprecatedSource"))
        .unwrap_or(&Value::Null);
    let first = |paths: [&str; 3]| {
        let [of_source, core, newer] = paths;
        [text(old, of_source), text(event, core), text(event, newer)]
            .into_iter()
            .find(|found| !found.is_empty())
            .unwrap_or_default()
            .to_owned()
    };
    let component = first(["component", "reportingComponent", "reportingController"]);
    match first(["host", "reportingInstance", "reportingInstance"]).as_str() {
        "" => component,
        instance => format!("{component}, {instance}"),
    }
}
