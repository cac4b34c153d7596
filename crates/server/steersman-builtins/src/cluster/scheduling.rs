//! Machine: PriorityClasses, RuntimeClasses and Leases (upstream: `pkg/apis/scheduling`, `node` and
//! `coordination`).

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::status::FieldError;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{part, set};
use crate::fields::go_value::{TOLERATION, print};
use crate::fields::shared_warnings;
use crate::pod;

pub(crate) const PRIORITY_CLASS: Strategy = Strategy {
    defaults: |object| {
        set(object, "preemptionPolicy", json!("PreemptLowerPriority"));
        set(object, "value", json!(0));
    },
    validate: priority,
    ..Strategy::PLAIN
};

pub(crate) const RUNTIME_CLASS: Strategy = Strategy {
    defaults: |object| set(object, "handler", json!("")),
    validate: runtime,
    warnings: |new, _| {
        let nodes = FieldPath::root(new).down("scheduling.nodeSelector");
        let warnings = nodes
            .entries()
            .filter_map(|(name, _)| shared_warnings::old_label(name));
        warnings
            .map(|why| format!("{}: {why}", nodes.path()))
            .collect()
    },
    ..Strategy::PLAIN
};

pub(crate) const LEASE: Strategy = Strategy {
    defaults: |object| {
        part(object, "spec");
    },
    validate: |object, _| {
        let mut errors = Errors::default();
        lease(&FieldPath::root(object).at("spec"), &mut errors);
        errors
    },
    ..Strategy::PLAIN
};

/// Highest priority of a class that is not a system class.
const HIGHEST: i64 = 1_000_000_000;

/// The system's priority classes and their values.
const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

fn priority(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let (value, policy) = (root.at("value"), root.at("preemptionPolicy"));
    if let Some(old) = old {
        if old["value"] != *value.value() {
            errors.forbidden(&value, "may not be changed in an update.");
        }
        check::immutable(&policy, &old["preemptionPolicy"], &mut errors);
        return errors;
    }
    let name = root.down("metadata.name");
    if name.text().starts_with("system-") {
        let known = SYSTEM.iter().find(|(known, _)| *known == name.text());
        let why = match known {
            None => Some(format!(
                "{} is not a known system priority class",
                name.text()
            )),
            Some((known, wanted)) if *wanted != value.int() => {
                Some(format!("value of {known} PriorityClass must be {wanted}"))
            }
            Some((known, _)) if root.at("globalDefault").flag() => Some(format!(
                "globalDefault of {known} PriorityClass must be false"
            )),
            Some(_) => None,
        };
        if let Some(why) = why {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden(&name, &detail);
        }
    } else if value.int() > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        errors.forbidden(&value, &detail);
    }
    check::required_one_of(&policy, &["PreemptLowerPriority", "Never"], &mut errors);
    errors
}

fn runtime(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let handler = root.at("handler");
    check::label(&handler, &mut errors);
    let overhead = root.down("overhead.podFixed");
    pod::check_overhead(&FieldPath::new("overhead", overhead.value()), &mut errors);
    check::labels(&root.down("scheduling.nodeSelector"), &mut errors);
    let tolerations = root.down("scheduling.tolerations");
    pod::check_tolerations(&tolerations, &mut errors);
    let mut seen = HashSet::new();
    for one in tolerations.items() {
        let written = print(&TOLERATION, one.value());
        if seen.contains(&written) {
            errors.push(FieldError::duplicate(one.path(), &written));
        }
        seen.insert(written);
    }
    if let Some(old) = old {
        check::immutable(&handler, &old["handler"], &mut errors);
    }
    errors
}

fn lease(spec: &FieldPath<'_>, errors: &mut Errors) {
    let duration = spec.at("leaseDurationSeconds");
    if duration.is_set() && duration.int() <= 0 {
        errors.invalid(&duration, "must be greater than 0");
    }
    check::not_negative(&spec.at("leaseTransitions"), errors);
    let strategy = spec.at("strategy");
    if strategy.is_set() {
        // As in the real server, the path names the field twice.
        let at = strategy.named("strategy", Some(strategy.value()));
        if strategy.text().contains('/') {
            check::qualified(&at, errors);
        } else {
            check::one_of(&at, &["OldestEmulationVersion"], errors);
        }
    }
    let holder = spec.at("preferredHolder");
    if !holder.is_empty() && strategy.is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(&holder, detail);
    }
}
