//! Machine: StorageClasses, VolumeAttributesClasses, CSI drivers, storage capacities and
//! attachments (upstream: `pkg/apis/storage`).

pub(crate) mod claim;
pub(crate) mod sources;
pub(crate) mod volume;

use std::collections::HashSet;

use serde_json::{Value, json};
use steersman_apimachinery::names;

use crate::Strategy;
use crate::fields::fill::{complete, drop, lacks, part, put, set, set_text};
use crate::fields::go_value::GoType::{self, Plain, Struct, Text};
use crate::fields::{FieldPath, check, selector, shared_warnings};

const ATTACHMENT_SOURCE: GoType =
    Struct(&[("persistentVolumeName", Plain), ("inlineVolumeSpec", Plain)]);

/// The spec of a VolumeAttachment. An inline volume has the names of the API here.
const ATTACHMENT_SPEC: GoType = Struct(&[
    ("attacher", Text),
    ("source", ATTACHMENT_SOURCE),
    ("nodeName", Text),
]);

pub(super) const STORAGE_CLASS: Strategy = Strategy {
    defaults: |object| {
        set(object, "provisioner", json!(""));
        set(object, "reclaimPolicy", json!("Delete"));
        set(object, "volumeBindingMode", json!("Immediate"));
    },
    validate: class,
    warn: |new, _| {
        for term in new.at("allowedTopologies").items() {
            let labels = term.at("matchLabelExpressions").items();
            labels.for_each(|one| shared_warnings::of_key(&one.at("key"), one.at("key").text()));
        }
    },
    ..Strategy::PLAIN
};

pub(super) const ATTRIBUTES_CLASS: Strategy = Strategy {
    defaults: |object| set(object, "driverName", json!("")),
    validate: attributes,
    ..Strategy::PLAIN
};

pub(super) const DRIVER: Strategy = Strategy {
    defaults: driver_defaults,
    prepare: |object, old| {
        // A new object has no generation. A change of a mutable field raises the generation.
        let raised = match old {
            None => return,
            Some(old) if old["spec"] == object["spec"] => return,
            Some(old) => {
                let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
                generation.saturating_add(1)
            }
        };
        if let Some(metadata) = object.get_mut("metadata") {
            put(metadata, "generation", json!(raised));
        }
    },
    validate: driver,
    ..Strategy::PLAIN
};

pub(super) const CSI_NODE: Strategy = Strategy {
    defaults: |object| complete(object, json!({"spec": {"drivers": null}})),
    validate: csi_node,
    ..Strategy::PLAIN
};

pub(super) const CAPACITY: Strategy = Strategy {
    defaults: |object| set(object, "storageClassName", json!("")),
    validate: capacity,
    warn: |new, _| {
        let topology = new.at("nodeTopology");
        let [expressions, labels] = topology.parts(["matchExpressions", "matchLabels"]);
        expressions.each(|one| shared_warnings::of_key(&one.at("key"), one.at("key").text()));
        for (name, _) in labels.entries() {
            shared_warnings::of_key(&labels.named(name, None), name);
        }
    },
    ..Strategy::PLAIN
};

pub(super) const ATTACHMENT: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            part(spec, "source");
            set_text(spec, "attacher", "");
            set_text(spec, "nodeName", "");
        }
        complete(object, json!({"status": {"attached": false}}));
    },
    validate: attachment,
    ..Strategy::PLAIN
};

/// Largest number of bytes in the parameters of a class.
const PARAMETERS_LIMIT: usize = 256 * 1024;
const MOST_PARAMETERS: usize = 512;

/// Checks the name of a provisioner: a qualified name, in lower or upper case.
fn check_provider(at: &FieldPath<'_>) {
    check::required(at, |at| {
        at.invalid_each(at.text(), names::check_key(&at.text().to_lowercase()));
    });
}

fn check_parameters(at: &FieldPath<'_>) {
    if at.len() > MOST_PARAMETERS {
        return at.too_long(MOST_PARAMETERS);
    }
    let mut size = 0;
    for (key, value) in at.entries() {
        if key.is_empty() {
            at.invalid_as(key, "field can not be empty.");
        }
        size += key.len() + value.len();
    }
    if size > PARAMETERS_LIMIT {
        at.too_long(PARAMETERS_LIMIT);
    }
}

fn class(root: &FieldPath<'_>, old: Option<&Value>) {
    check_provider(&root.at("provisioner"));
    check_parameters(&root.at("parameters"));
    let [policy, mode] = root.parts(["reclaimPolicy", "volumeBindingMode"]);
    policy.if_filled(|policy| check::one_of(policy, &["Delete", "Retain"]));
    check::one_of(&mode, &["Immediate", "WaitForFirstConsumer"]);
    for term in root.at("allowedTopologies").items() {
        let mut seen = HashSet::new();
        for expression in term.at("matchLabelExpressions").items() {
            let (key, values) = (expression.at("key"), expression.at("values"));
            check::qualified(&key);
            values.need("");
            key.unique(&mut seen);
        }
    }
    if let Some(old) = old {
        let fields = [
            "parameters", "provisioner", "reclaimPolicy", "volumeBindingMode",
        ];
        check::immutable_members(root, old, &fields);
    }
}

fn attributes(root: &FieldPath<'_>, old: Option<&Value>) {
    check_provider(&root.at("driverName"));
    let parameters = root.at("parameters");
    parameters.need("must contain at least one key/value pair");
    check_parameters(&parameters);
    // Updates of a StorageClass have another message for the same rule.
    for field in ["driverName", "parameters"] {
        let at = root.at(field);
        if old.is_some_and(|old| old[field] != *at.value()) {
            at.forbidden(&format!("updates to {field} are forbidden."));
        }
    }
}

fn driver_defaults(object: &mut Value) {
    let Some(spec) = part(object, "spec") else {
        return;
    };
    set(spec, "attachRequired", json!(true));
    set(spec, "fsGroupPolicy", json!("ReadWriteOnceWithFSType"));
    if lacks(spec, "volumeLifecycleModes") {
        put(spec, "volumeLifecycleModes", json!(["Persistent"]));
    }
    for flag in [
        "podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount",
    ] {
        set(spec, flag, json!(false));
    }
}

fn driver(root: &FieldPath<'_>, old: Option<&Value>) {
    let spec = root.at("spec");
    if old.is_none() {
        let name = root.shown_at("name", root.down("metadata.name").value());
        check::csi_driver(&name);
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    check::required_one_of(&spec.at("fsGroupPolicy"), &policies);
    let mut audiences = HashSet::new();
    for request in spec.at("tokenRequests").items() {
        let (audience, expiry) = (request.at("audience"), request.at("expirationSeconds"));
        audience.unique(&mut audiences);
        expiry.if_set(|at| at.at_least(600, "may not specify a duration less than 10 minutes"));
    }
    let modes = spec.at("volumeLifecycleModes");
    modes.each(|mode| check::one_of(&modes.with(mode.value()), &["Ephemeral", "Persistent"]));
    if let Some(old) = old {
        let old = &old["spec"];
        let attach = spec.named("attachedRequired", spec.value().get("attachRequired"));
        check::immutable(&attach, &old["attachRequired"]);
        check::immutable(&modes, &old["volumeLifecycleModes"]);
    }
}

fn csi_node(object: &FieldPath<'_>, old: Option<&Value>) {
    let mut seen = HashSet::new();
    for driver in object.down("spec.drivers").items() {
        let (name, node) = (driver.at("name"), driver.at("nodeID"));
        check::csi_driver(&name);
        node.need("");
        if node.len() > 192 {
            node.invalid("must be 192 characters or less");
        }
        check::not_negative(&driver.down("allocatable.count"));
        let keys = driver.at("topologyKeys");
        keys.each(|key| check::required(key, check::qualified));
        name.unique(&mut seen);
    }
    if let Some(old) = old {
        check_drivers_stay(object, old);
    }
}

/// Checks that drivers change nothing but `allocatable` (upstream: `ValidateCSINodeUpdate`).
fn check_drivers_stay(object: &FieldPath<'_>, old: &Value) {
    let fixed = |driver: &FieldPath<'_>| {
        let mut fixed = driver.value().clone();
        drop(&mut fixed, "allocatable");
        fixed
    };
    let drivers = object.down("spec.drivers");
    for known in object.with(old).down("spec.drivers").items() {
        for driver in drivers.items() {
            let fixed = [&known, &driver].map(fixed);
            if fixed[0]["name"] == fixed[1]["name"] && fixed[0] != fixed[1] {
                let shown = drivers.with(&fixed[1]);
                shown.invalid_printed(&CSI_NODE_DRIVER, check::IMMUTABLE);
            }
        }
    }
}

const CSI_NODE_DRIVER: GoType = Struct(&[
    ("name", Plain),
    ("nodeID", Plain),
    ("topologyKeys", Plain),
    ("allocatable", Plain),
]);

fn capacity(root: &FieldPath<'_>, old: Option<&Value>) {
    selector::check(&root.at("nodeTopology"));
    check::subdomain(&root.at("storageClassName"));
    check::not_negative_amount(&root.at("capacity"));
    if let Some(old) = old {
        check::immutable_members(root, old, &["nodeTopology", "storageClassName"]);
    }
}

fn attachment(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    check::csi_driver(&spec.at("attacher"));
    let source = spec.at("source");
    let [name, inline] = source.parts(["persistentVolumeName", "inlineVolumeSpec"]);
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (name.is_set(), inline.is_set()) {
        (true, true) => source.forbidden(detail),
        (false, false) => source.required(detail),
        (true, false) if name.is_empty() => {
            name.required("must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    check::subdomain(&spec.at("nodeName"));
    if let Some(old) = old {
        check::immutable_struct(&spec, &old["spec"], &ATTACHMENT_SPEC);
    }
}
