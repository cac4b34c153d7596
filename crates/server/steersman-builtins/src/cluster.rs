//! Machine: Namespaces and Nodes (upstream: `pkg/apis/core/validation`).

pub(crate) mod key_pair;
pub(crate) mod config;
pub mod events;
pub(crate) mod migrations;
pub(crate) mod scheduling;

use serde_json::{Value, json};
use steersman_apimachinery::names;
use steersman_apimachinery::status::FieldError;

use crate::Strategy;
use crate::fields::address::{self, Network};
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, lacks, part, put, set};

pub(super) const NAMESPACE: Strategy = Strategy {
    defaults: namespace_defaults,
    prepare: |object, old| match old {
        None => {
            let spec = part(object, "spec");
            if let Some(spec) = spec
                && let Some(list) = {
                    set(spec, "finalizers", json!([]));
                    spec.get_mut("finalizers").and_then(Value::as_array_mut)
                }
                && !list.iter().any(|one| one == "kubernetes")
            {
                list.push(json!("kubernetes"));
            }
            put(object, "status", json!({"phase": "Active"}));
        }
        // Finalizers change only through the subresource `finalize`.
        Some(old) => put(object, "spec", old["spec"].clone()),
    },
    validate: |object, old| {
        let mut errors = Errors::default();
        let finalizers = FieldPath::root(object).down("spec.finalizers");
        for finalizer in finalizers.items() {
            // As upstream, only the errors of updates name the element.
            let path = match old {
                None => finalizers.path(),
                Some(_) => finalizer.path(),
            };
            check_finalizer(&FieldPath::new(path, finalizer.value()), &mut errors);
        }
        errors
    },
    validate_status: |object, _| {
        let mut errors = Errors::default();
        let phase = FieldPath::root(object).down("status.phase");
        let phase = FieldPath::new("status.Phase", phase.value());
        let terminating = !object["metadata"]["deletionTimestamp"].is_null();
        let (wanted, is) = if terminating {
            ("Terminating", "is not empty")
        } else {
            ("Active", "is empty")
        };
        if phase.text() != wanted {
            let detail = format!("may only be '{wanted}' if `deletionTimestamp` {is}");
            errors.invalid_text(&phase, &detail);
        }
        errors
    },
    ..Strategy::PLAIN
};

pub(super) const NODE: Strategy = Strategy {
    defaults: node_defaults,
    validate: node,
    validate_status: |object, old| node(object, Some(old)),
    warnings: |new, _| {
        let spec = &new["spec"];
        let warnings = [
            ("configSource", "the feature is removed"),
            (
                "externalID",
                "this field is deprecated, and is unused by Kubernetes",
            ),
        ];
        let warnings = warnings
            .into_iter()
            .filter(|(field, _)| !lacks(spec, field));
        warnings
            .map(|(field, why)| format!("spec.{field}: {why}"))
            .collect()
    },
    ..Strategy::PLAIN
};

fn namespace_defaults(object: &mut Value) {
    let name = object["metadata"]["name"].clone();
    if let Some(metadata) = given(object, "metadata")
        && let Some(labels) = part(metadata, "labels")
        && name.is_string()
    {
        put(labels, "kubernetes.io/metadata.name", name);
    }
    part(object, "spec");
}

fn check_finalizer(at: &FieldPath<'_>, errors: &mut Errors) {
    check::qualified(at, errors);
    let standard = ["foregroundDeletion", "kubernetes", "orphan"];
    if !at.text().contains('/') && !standard.contains(&at.text()) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid_text(at, detail);
    }
}

fn node_defaults(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        // The deprecated `podCIDR` holds the first element of `podCIDRs`.
        if lacks(spec, "podCIDRs") && !lacks(spec, "podCIDR") {
            let first = spec["podCIDR"].clone();
            put(spec, "podCIDRs", json!([first]));
        }
        if !lacks(spec, "podCIDRs") {
            let first = spec["podCIDRs"][0].clone();
            put(spec, "podCIDR", first);
        }
    }
    let capacity = object["status"]["capacity"].clone();
    if let (true, Some(status)) = (capacity.is_object(), given(object, "status")) {
        set(status, "allocatable", capacity);
    }
}

fn node(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    if old.is_none() {
        taints(&root, &mut errors);
    }
    for part in ["capacity", "allocatable"] {
        for (name, at) in root.at("status").at(part).entries() {
            let at = FieldPath::new(format!("status.{part}.{name}"), at.value());
            crate::quota::check_amount(name, &at, &mut errors);
        }
    }
    let spec = root.at("spec");
    let cidrs = spec.at("podCIDRs");
    let Some(old) = old else {
        pod_networks(&cidrs, &mut errors);
        return errors;
    };
    let mut seen = Vec::new();
    for address in root.down("status.addresses").items() {
        if seen.contains(&address.value()) {
            let (kind, text) = (&address.value()["type"], &address.value()["address"]);
            let shown = format!("{{\"Type\":{kind},\"Address\":{text}}}");
            errors.push(FieldError::duplicate(address.path(), &shown));
        }
        seen.push(address.value());
    }
    let was = &old["spec"];
    if !lacks(was, "podCIDRs") {
        let before = was["podCIDRs"].as_array().map_or(&[][..], Vec::as_slice);
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        if before.len() == cidrs.len() {
            let mut pairs = before.iter().zip(cidrs.items());
            for _ in pairs.by_ref().filter(|(was, now)| *was != now.value()) {
                errors.forbidden(&cidrs, detail);
            }
        } else {
            errors.forbidden(&cidrs, detail);
        }
    }
    let provider = spec.at("providerID");
    if !lacks(was, "providerID") && was["providerID"] != *provider.value() {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.forbidden(&provider, detail);
    }
    taints(&root, &mut errors);
    if was.get("externalID") != spec.value().get("externalID") {
        errors.forbidden(&spec.at("externalID"), "may not be updated");
    }
    errors
}

fn pod_networks(cidrs: &FieldPath<'_>, errors: &mut Errors) {
    for at in cidrs.items() {
        address::check_network(&at, &[], errors);
    }
    if cidrs.len() < 2 {
        return;
    }
    let networks = cidrs.items().filter_map(|at| Network::parse(at.text()));
    let six = networks.filter(|network| network.is_ipv6()).count();
    if cidrs.len() > 2 || six != 1 {
        let detail = "may specify no more than one CIDR for each IP family";
        errors.invalid(cidrs, detail);
    }
    let mut seen = Vec::new();
    for at in cidrs.items() {
        if seen.contains(&at.text()) {
            errors.duplicate(&at);
        }
        seen.push(at.text());
    }
}

fn taints(root: &FieldPath<'_>, errors: &mut Errors) {
    let list = root.down("spec.taints");
    // As in kube-apiserver, the path is below `metadata`.
    let list = FieldPath::new("metadata.taints", list.value());
    let mut seen = Vec::new();
    for taint in list.items() {
        let (key, effect) = (taint.at("key"), taint.at("effect"));
        check::qualified(&key, errors);
        let wrong = names::check_label_value(taint.at("value").text());
        if !wrong.is_empty() {
            errors.invalid_text(&taint.at("value"), &wrong.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check::required_one_of(&effect, &effects, errors);
        let pair = (key.text(), effect.text());
        if seen.contains(&pair) {
            let text = |name: &str| json!(taint.at(name).text());
            let time = taint.at("timeAdded");
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}: taints must be unique by key and effect pair",
                text("key"),
                text("value"),
                text("effect"),
                time.value()
            );
            errors.push(FieldError::duplicate(taint.path(), &shown));
        }
        seen.push(pair);
    }
}
