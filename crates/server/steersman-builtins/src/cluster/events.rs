//! Machine: converts Events between the core group and events.k8s.io, which name fields differently, and checks them.
//!
//! Events are stored in the form of the core group.

use serde_json::{Map, Value};
use steersman_apimachinery::names;
use steersman_apimachinery::status::FieldError;
use steersman_schema::resource::Resource;

use crate::fields::fill::{drop, put};
use crate::fields::{FieldPath, Findings, check};

/// Renamed fields: the name in the core group, and the name in events.k8s.io.
const RENAMED: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The group with the newer field names.
const GROUP: &str = "events.k8s.io";

/// The fields of an events.k8s.io Event that cannot change, under their names in the core group.
const FIXED: &[&str] = &[
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
];

/// Returns whether the resource serves Events in the form of events.k8s.io.
pub fn is_newer(resource: &Resource) -> bool {
    resource.built_in && resource.group == GROUP && resource.kind == "Event"
}

fn rename(event: &mut Value, pairs: impl Iterator<Item = (&'static str, &'static str)>) {
    let Some(members) = event.as_object_mut() else {
        return;
    };
    for (from, to) in pairs {
        if let Some(value) = members.remove(from) {
            members.insert(to.to_owned(), value);
        }
    }
}

/// Converts a stored Event from the form of the core group to the form of events.k8s.io.
#[must_use]
pub fn to_newer(stored: &Value) -> Value {
    let mut event = stored.clone();
    rename(&mut event, RENAMED.iter().copied());
    put(&mut event, "apiVersion", format!("{GROUP}/v1").into());
    for name in ["reportingController", "reportingInstance"] {
        if event[name] == "" {
            drop(&mut event, name);
        }
    }
    complete_newer(&mut event);
    event
}

/// Converts an Event from the form of events.k8s.io to the stored form of the core group.
#[must_use]
pub fn to_core(event: &Value) -> Value {
    let mut event = event.clone();
    let pairs = RENAMED.iter().map(|(core, newer)| (*newer, *core));
    rename(&mut event, pairs);
    put(&mut event, "apiVersion", "v1".into());
    complete_core(&mut event);
    event
}

pub(crate) fn complete_core(event: &mut Value) {
    let times = ["firstTimestamp", "lastTimestamp", "eventTime"];
    let texts = ["reportingComponent", "reportingInstance"];
    complete(event, &times, &["involvedObject", "source"], &texts);
}

pub(crate) fn complete_newer(event: &mut Value) {
    let times = [
        "deprecatedFirstTimestamp", "deprecatedLastTimestamp", "eventTime",
    ];
    complete(event, &times, &["regarding", "deprecatedSource"], &[]);
}

/// Adds unset fields: null for times, empty objects, and empty strings.
fn complete(event: &mut Value, times: &[&str], objects: &[&str], texts: &[&str]) {
    let Some(members) = event.as_object_mut() else {
        return;
    };
    members.retain(|name, value| !value.is_null() || times.contains(&name.as_str()));
    for name in times {
        members.entry(*name).or_insert(Value::Null);
    }
    for name in objects {
        members.entry(*name).or_insert(Value::Object(Map::new()));
    }
    for name in texts {
        members.entry(*name).or_insert(Value::String(String::new()));
    }
}

/// Checks an Event by the rules of its group.
pub fn check(resource: &Resource, event: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let newer = is_newer(resource);
    let core = if newer { to_core(event) } else { event.clone() };
    Findings::errors(&core, |event| {
        let timed = event.at("eventTime").is_set();
        check_namespace(event, timed);
        if timed {
            check_new(event, newer);
        }
        match old {
            _ if !newer => {}
            None => check_unset(event),
            Some(old) => check_fixed(event, &to_core(old)),
        }
    })
}

/// Checks that an Event is in the namespace of the object that it is about.
fn check_namespace(event: &FieldPath<'_>, timed: bool) {
    let own = event.down("metadata.namespace").text();
    let about = event.down("involvedObject.namespace");
    let fits = match (timed, about.text()) {
        (false, "") => matches!(own, "" | "default"),
        (true, "") => matches!(own, "default" | "kube-system"),
        (false, about) => own == about,
        (true, _) => true,
    };
    if !fits {
        about.invalid_text("does not match event.namespace");
    }
}

/// Returns the reporter under the name of the field in its group.
fn reporter<'a>(event: &FieldPath<'a>, newer: bool) -> FieldPath<'a> {
    let name = "reportingComponent";
    let shown = if newer { "reportingController" } else { name };
    event.named(shown, event.value().get(name))
}

/// Checks the fields that an Event with an `eventTime` requires.
fn check_new(event: &FieldPath<'_>, newer: bool) {
    let reporter = reporter(event, newer);
    reporter.need("");
    reporter.invalid_each(reporter.text(), names::check_key(reporter.text()));
    let required = event.parts(["reportingInstance", "action", "reason"]);
    for part in &required {
        part.need("");
        check_length(part, 128);
    }
    check_length(&event.at("message"), 1024);
}

fn check_length(at: &FieldPath<'_>, most: usize) {
    if at.len() > most {
        at.invalid_as("", &format!("can have at most {most} characters"));
    }
}

/// Checks the fields that a new events.k8s.io Event requires or forbids.
fn check_unset(event: &FieldPath<'_>) {
    event.at("eventTime").need("");
    let kind = event.at("type");
    if !matches!(kind.text(), "Normal" | "Warning") {
        kind.invalid_as("", &format!("has invalid value: {}", kind.text()));
    }
    for part in event.parts(["firstTimestamp", "lastTimestamp", "count", "source"]) {
        if !part.is_empty() && part.number() != Some(0) {
            part.invalid_as("", "needs to be unset");
        }
    }
}

fn check_fixed(new: &FieldPath<'_>, old: &Value) {
    for field in FIXED {
        let at = match *field {
            "reportingComponent" => reporter(new, true),
            field => new.at(field),
        };
        check::immutable(&at, &old[*field]);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_survives_conversion_to_both_shapes() {
        let mut core = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "K"}, "message": "m", "count": 3,
            "source": {"component": "c"}, "reason": "R"});
        complete_core(&mut core);
        let newer = to_newer(&core);
        assert_eq!(
            newer,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
                "regarding": {"kind": "K"}, "note": "m", "deprecatedCount": 3,
                "deprecatedSource": {"component": "c"}, "reason": "R", "eventTime": null,
                "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null})
        );
        assert_eq!(to_core(&newer), core);
    }

    #[test]
    fn each_group_has_its_rules() {
        let all = steersman_schema::builtin::built_in();
        let of = |group: &str| {
            let found = all.iter().find(|r| r.group == group && r.kind == "Event");
            found.unwrap().clone()
        };
        let wrong_fields = |group: &str, event: &Value, old: Option<&Value>| -> Vec<String> {
            let errors = check(&of(group), event, old);
            errors.into_iter().map(|error| error.field).collect()
        };
        let core = |namespace: &str| json!({"metadata": {"namespace": "a"}, "involvedObject": {"namespace": namespace}});
        assert!(wrong_fields("", &core("a"), None).is_empty());
        assert_eq!(
            wrong_fields("", &core("b"), None),
            ["involvedObject.namespace"]
        );
        let mut newer = json!({"metadata": {"namespace": "a"}, "regarding": {"namespace": "a"}});
        assert_eq!(wrong_fields(GROUP, &newer, None), ["eventTime", "type"]);
        newer["eventTime"] = json!("2026-01-02T03:04:05.000000Z");
        newer["type"] = json!("Normal");
        newer["deprecatedCount"] = json!(1);
        newer["reportingController"] = json!("no name!");
        assert_eq!(
            wrong_fields(GROUP, &newer, None),
            [
                "reportingController", "reportingInstance", "action", "reason", "count"
            ]
        );
        for (field, value) in [
            ("reportingController", "c"),
            ("reportingInstance", "i"),
            ("action", "A"),
            ("reason", "R"),
        ] {
            newer[field] = json!(value);
        }
        let mut other = newer.clone();
        other["note"] = json!("other");
        other["series"] = json!({"count": 2});
        assert_eq!(wrong_fields(GROUP, &other, Some(&newer)), ["message"]);
    }
}
