//! Machine: Namespaces and Nodes (upstream: `pkg/apis/core/validation`).

pub(crate) mod key_pair;
pub(crate) mod config;
pub mod events;
pub(crate) mod migrations;
pub(crate) mod scheduling;

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names;

use crate::Strategy;
use crate::fields::address::{self, Network};
use crate::fields::fill::{elements, given, lacks, part, put, set};
use crate::fields::go_value::GoType::{self, Plain, Struct, Text};
use crate::fields::{FieldPath, check};

pub(super) const NAMESPACE: Strategy = Strategy {
    defaults: namespace_defaults,
    prepare: |object, old| match old {
        None => {
            if let Some(spec) = part(object, "spec") {
                set(spec, "finalizers", json!([]));
                if let Some(list) = spec["finalizers"].as_array_mut()
                    && !list.iter().any(|one| one == "kubernetes")
                {
                    list.push(json!("kubernetes"));
                }
            }
            put(object, "status", json!({"phase": "Active"}));
        }
        // Finalizers change only through the subresource `finalize`.
        Some(old) => put(object, "spec", old["spec"].clone()),
    },
    validate: |object, old| {
        let finalizers = object.down("spec.finalizers");
        let is_update = old.is_some();
        for finalizer in finalizers.items() {
            // As upstream, only the errors of updates name the element.
            let named = if is_update { &finalizer } else { &finalizers };
            check_finalizer(&named.with(finalizer.value()));
        }
    },
    validate_status: |object, _| {
        let phase = object.down("status.phase");
        let phase = object.shown_at("status.Phase", phase.value());
        let (wanted, is) = if object.down("metadata.deletionTimestamp").is_set() {
            ("Terminating", "is not empty")
        } else {
            ("Active", "is empty")
        };
        if phase.text() != wanted {
            let detail = format!("may only be '{wanted}' if `deletionTimestamp` {is}");
            phase.invalid_text(&detail);
        }
    },
    ..Strategy::PLAIN
};

pub(super) const NODE: Strategy = Strategy {
    defaults: node_defaults,
    validate: node,
    validate_status: |object, old| node(object, Some(old)),
    warn: |new, _| {
        let [source, external] = new.at("spec").parts(["configSource", "externalID"]);
        source.if_filled(|source| source.warn("the feature is removed"));
        let why = "this field is deprecated, and is unused by Kubernetes";
        external.if_filled(|external| external.warn(why));
    },
    ..Strategy::PLAIN
};

const ADDRESS: GoType = Struct(&[("type", Plain), ("address", Plain)]);
const TAINT: GoType = Struct(&[
    ("key", Text),
    ("value", Text),
    ("effect", Text),
    ("timeAdded", Plain),
]);

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

fn check_finalizer(at: &FieldPath<'_>) {
    check::qualified(at);
    let standard = ["foregroundDeletion", "kubernetes", "orphan"];
    if !at.text().contains('/') && !standard.contains(&at.text()) {
        at.invalid_text("name is neither a standard finalizer name nor is it fully qualified");
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

fn node(root: &FieldPath<'_>, old: Option<&Value>) {
    if old.is_none() {
        taints(root);
    }
    for part in root.at("status").parts(["capacity", "allocatable"]) {
        for (name, _) in part.entries() {
            crate::quota::check_amount(name, &part.at(name));
        }
    }
    let spec = root.at("spec");
    let cidrs = spec.at("podCIDRs");
    let Some(old) = old else {
        pod_networks(&cidrs);
        return;
    };
    let mut seen = Vec::new();
    for address in root.down("status.addresses").items() {
        if seen.contains(&address.value()) {
            address.duplicate_written(&address.printed(&ADDRESS));
        }
        seen.push(address.value());
    }
    let was = &old["spec"];
    if !lacks(was, "podCIDRs") {
        let before = elements(&was["podCIDRs"]);
        let changes = if before.len() == cidrs.len() {
            before
                .iter()
                .zip(cidrs.items())
                .filter(|(was, now)| *was != now.value())
                .count()
        } else {
            1
        };
        for _ in 0..changes {
            cidrs.forbidden("node updates may not change podCIDR except from \"\" to valid");
        }
    }
    let provider = spec.at("providerID");
    if !lacks(was, "providerID") && was["providerID"] != *provider.value() {
        provider.forbidden("node updates may not change providerID except from \"\" to valid");
    }
    taints(root);
    if was.get("externalID") != spec.value().get("externalID") {
        spec.at("externalID").forbidden("may not be updated");
    }
}

fn pod_networks(cidrs: &FieldPath<'_>) {
    cidrs.each(|at| address::check_network(at, &[]));
    if cidrs.len() < 2 {
        return;
    }
    let networks = cidrs.items().filter_map(|at| Network::parse(at.text()));
    let six = networks.filter(|network| network.is_ipv6()).count();
    if cidrs.len() > 2 || six != 1 {
        cidrs.invalid("may specify no more than one CIDR for each IP family");
    }
    let mut seen = HashSet::new();
    cidrs.items().for_each(|at| at.unique(&mut seen));
}

fn taints(root: &FieldPath<'_>) {
    let list = root.down("spec.taints");
    // As in kube-apiserver, the path is below `metadata`.
    let list = root.shown_at("metadata.taints", list.value());
    let mut seen = HashSet::new();
    for taint in list.items() {
        let [key, effect, value] = taint.parts(["key", "effect", "value"]);
        check::qualified(&key);
        let wrong = names::check_label_value(value.text());
        if !wrong.is_empty() {
            value.invalid_text(&wrong.join(";"));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check::required_one_of(&effect, &effects);
        if !seen.insert((key.text(), effect.text())) {
            let shown = taint.printed(&TAINT);
            let detail = "taints must be unique by key and effect pair";
            taint.duplicate_written(&format!("{shown}: {detail}"));
        }
    }
}
