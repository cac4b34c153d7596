//! Machine: PriorityClasses, RuntimeClasses and Leases (upstream: `pkg/apis/scheduling`, `node` and `coordination`).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::fields::fill::{set, with_spec};
use crate::fields::go_value::TOLERATION;
use crate::fields::{FieldPath, check, shared_warnings};
use crate::{Strategy, pod};

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
    warn: |new, _| {
        let nodes = new.down("scheduling.nodeSelector");
        for (name, _) in nodes.entries() {
            if let Some(why) = shared_warnings::old_label(name) {
                nodes.warn(&why);
            }
        }
    },
    ..Strategy::PLAIN
};

pub(crate) const LEASE: Strategy = Strategy {
    defaults: with_spec,
    validate: |object, _| lease(&object.at("spec")),
    ..Strategy::PLAIN
};

/// Highest priority of a class that is not a system class.
const HIGHEST: i64 = 1_000_000_000;

/// The system's priority classes and their values.
const SYSTEM: [(&str, i64); 2] = [
    ("system-node-critical", 2_000_001_000),
    ("system-cluster-critical", 2_000_000_000),
];

fn priority(root: &FieldPath<'_>, old: Option<&Value>) {
    let (value, policy) = (root.at("value"), root.at("preemptionPolicy"));
    if let Some(old) = old {
        if old["value"] != *value.value() {
            value.forbidden("may not be changed in an update.");
        }
        check::immutable(&policy, &old["preemptionPolicy"]);
        return;
    }
    let name = root.down("metadata.name");
    if name.text().starts_with("system-") {
        let known = SYSTEM.iter().find(|(known, _)| *known == name.text());
        let why = match known {
            None => format!("{} is not a known system priority class", name.text()),
            Some((known, wanted)) if *wanted != value.int() => {
                format!("value of {known} PriorityClass must be {wanted}")
            }
            Some((known, _)) if root.at("globalDefault").flag() => {
                format!("globalDefault of {known} PriorityClass must be false")
            }
            Some(_) => String::new(),
        };
        if !why.is_empty() {
            let detail = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            name.forbidden(&detail);
        }
    } else if value.int() > HIGHEST {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        value.forbidden(&detail);
    }
    check::required_one_of(&policy, &["PreemptLowerPriority", "Never"]);
}

fn runtime(root: &FieldPath<'_>, old: Option<&Value>) {
    let handler = root.at("handler");
    check::label(&handler);
    let overhead = root.down("overhead.podFixed");
    pod::check_overhead(&root.shown_at("overhead", overhead.value()));
    check::labels(&root.down("scheduling.nodeSelector"));
    let tolerations = root.down("scheduling.tolerations");
    pod::check_tolerations(&tolerations);
    let mut seen = HashSet::new();
    for one in tolerations.items() {
        let written = one.printed(&TOLERATION);
        if !seen.insert(written.clone()) {
            one.duplicate_written(&written);
        }
    }
    check::immutable(&handler, old.map(|old| &old["handler"]));
}

fn lease(spec: &FieldPath<'_>) {
    let duration = spec.at("leaseDurationSeconds");
    duration.if_set(|at| at.at_least(1, "must be greater than 0"));
    check::not_negative(&spec.at("leaseTransitions"));
    let strategy = spec.at("strategy");
    if strategy.is_set() {
        // As in the real server, the path names the field twice.
        let at = strategy.named("strategy", Some(strategy.value()));
        if strategy.text().contains('/') {
            check::qualified(&at);
        } else {
            check::one_of(&at, &["OldestEmulationVersion"]);
        }
    }
    let holder = spec.at("preferredHolder");
    if !holder.is_empty() && strategy.is_empty() {
        holder.forbidden("may only be specified if `strategy` is defined");
    }
}
