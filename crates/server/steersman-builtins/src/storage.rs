//! Machine: StorageClasses, VolumeAttributesClasses, CSI drivers, storage capacities and
//! attachments (upstream: `pkg/apis/storage`).

pub(crate) mod claim;
pub(crate) mod sources;
pub(crate) mod volume;

use serde_json::{Value, json};
use steersman_apimachinery::names;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{lacks, part, put, set, set_text};
use crate::fields::go_value::GoType::{self, Plain, Struct, Text};
use crate::fields::selector;
use crate::fields::shared_warnings;
use crate::quota::amount;

const ATTACHMENT_SOURCE: GoType = Struct(&[
    ("PersistentVolumeName", "persistentVolumeName", Plain),
    ("InlineVolumeSpec", "inlineVolumeSpec", Plain),
]);

/// The spec of a VolumeAttachment. An inline volume has the names of the API here.
const ATTACHMENT_SPEC: GoType = Struct(&[
    ("Attacher", "attacher", Text),
    ("Source", "source", ATTACHMENT_SOURCE),
    ("NodeName", "nodeName", Text),
]);

pub(super) const STORAGE_CLASS: Strategy = Strategy {
    defaults: |object| {
        set(object, "provisioner", json!(""));
        set(object, "reclaimPolicy", json!("Delete"));
        set(object, "volumeBindingMode", json!("Immediate"));
    },
    validate: class,
    warnings: |new, _| {
        let terms = FieldPath::root(new).at("allowedTopologies");
        let labels = terms
            .items()
            .flat_map(|term| term.at("matchLabelExpressions").items());
        let keys = labels.map(|one| one.at("key"));
        keys.filter_map(|key| shared_warnings::of_key(&key, key.text()))
            .collect()
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
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            set(spec, "drivers", Value::Null);
        }
    },
    validate: csi_node,
    ..Strategy::PLAIN
};

pub(super) const CAPACITY: Strategy = Strategy {
    defaults: |object| set(object, "storageClassName", json!("")),
    validate: capacity,
    warnings: |new, _| {
        let nodes = FieldPath::root(new).at("nodeTopology");
        let keys = nodes
            .at("matchExpressions")
            .items()
            .map(|one| one.at("key"));
        let warnings = keys.filter_map(|key| shared_warnings::of_key(&key, key.text()));
        let labels = nodes.at("matchLabels");
        let named = labels
            .entries()
            .map(|(name, _)| (labels.named(name, None), name));
        warnings
            .chain(named.filter_map(|(at, name)| shared_warnings::of_key(&at, name)))
            .collect()
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
        if let Some(status) = part(object, "status") {
            set(status, "attached", json!(false));
        }
    },
    validate: attachment,
    ..Strategy::PLAIN
};

/// Largest number of bytes in the parameters of a class.
const PARAMETERS_LIMIT: usize = 256 * 1024;
/// Largest number of parameters of a class.
const MOST_PARAMETERS: usize = 512;

/// Checks the name of a provisioner: a qualified name, in lower or upper case.
fn check_provider(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.required(at, "");
        return;
    }
    for detail in names::check_key(&at.text().to_lowercase()) {
        errors.invalid_text(at, &detail);
    }
}

fn check_parameters(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.len() > MOST_PARAMETERS {
        errors.too_long(at, MOST_PARAMETERS);
        return;
    }
    let mut size = 0;
    for (key, value) in at.entries() {
        if key.is_empty() {
            errors.invalid_as(at, &json!(key), "field can not be empty.");
        }
        size += key.len() + value.len();
    }
    if size > PARAMETERS_LIMIT {
        errors.too_long(at, PARAMETERS_LIMIT);
    }
}

fn class(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    check_provider(&root.at("provisioner"), &mut errors);
    check_parameters(&root.at("parameters"), &mut errors);
    let (policy, mode) = (root.at("reclaimPolicy"), root.at("volumeBindingMode"));
    if !policy.is_empty() {
        check::one_of(&policy, &["Delete", "Retain"], &mut errors);
    }
    check::one_of(&mode, &["Immediate", "WaitForFirstConsumer"], &mut errors);
    for term in root.at("allowedTopologies").items() {
        let mut seen = Vec::new();
        for expression in term.at("matchLabelExpressions").items() {
            let (key, values) = (expression.at("key"), expression.at("values"));
            check::qualified(&key, &mut errors);
            if values.is_empty() {
                errors.required(&values, "");
            }
            if seen.contains(&key.text()) {
                errors.duplicate(&key);
            }
            seen.push(key.text());
        }
    }
    if let Some(old) = old {
        for field in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            check::immutable(&root.at(field), &old[field], &mut errors);
        }
    }
    errors
}

fn attributes(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    check_provider(&root.at("driverName"), &mut errors);
    let parameters = root.at("parameters");
    if parameters.is_empty() {
        let detail = "must contain at least one key/value pair";
        errors.required(&parameters, detail);
    }
    check_parameters(&parameters, &mut errors);
    // Updates of a StorageClass have another message for the same rule.
    for field in ["driverName", "parameters"] {
        let at = root.at(field);
        if old.is_some_and(|old| old[field] != *at.value()) {
            errors.forbidden(&at, &format!("updates to {field} are forbidden."));
        }
    }
    errors
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
        "podInfoOnMount",
        "storageCapacity",
        "requiresRepublish",
        "seLinuxMount",
    ] {
        set(spec, flag, json!(false));
    }
}

fn driver(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let spec = root.at("spec");
    if old.is_none() {
        let name = FieldPath::new("name", root.down("metadata.name").value());
        check::csi_driver(&name, &mut errors);
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    check::required_one_of(&spec.at("fsGroupPolicy"), &policies, &mut errors);
    let mut audiences = Vec::new();
    for request in spec.at("tokenRequests").items() {
        let (audience, expiry) = (request.at("audience"), request.at("expirationSeconds"));
        if audiences.contains(&audience.text()) {
            let at = FieldPath::new(audience.path(), audience.value());
            errors.duplicate(&at);
        }
        audiences.push(audience.text());
        if expiry.is_set() && expiry.int() < 600 {
            let detail = "may not specify a duration less than 10 minutes";
            errors.invalid(&expiry, detail);
        }
    }
    for mode in spec.at("volumeLifecycleModes").items() {
        let all = spec.at("volumeLifecycleModes");
        let at = FieldPath::new(all.path(), mode.value());
        check::one_of(&at, &["Ephemeral", "Persistent"], &mut errors);
    }
    if let Some(old) = old {
        let old = &old["spec"];
        let attach = spec.named("attachedRequired", spec.value().get("attachRequired"));
        check::immutable(&attach, &old["attachRequired"], &mut errors);
        let modes = spec.at("volumeLifecycleModes");
        check::immutable(&modes, &old["volumeLifecycleModes"], &mut errors);
    }
    errors
}

fn csi_node(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let mut seen = Vec::new();
    for driver in FieldPath::root(object).down("spec.drivers").items() {
        let (name, node) = (driver.at("name"), driver.at("nodeID"));
        check::csi_driver(&name, &mut errors);
        if node.is_empty() {
            errors.required(&node, "");
        }
        if node.len() > 192 {
            let detail = "must be 192 characters or less";
            errors.invalid(&node, detail);
        }
        let count = driver.down("allocatable.count");
        check::not_negative(&count, &mut errors);
        for key in driver.at("topologyKeys").items() {
            check::required(&key, check::qualified, &mut errors);
        }
        if seen.contains(&name.text()) {
            errors.duplicate(&name);
        }
        seen.push(name.text());
    }
    if let Some(old) = old {
        check_drivers_stay(object, old, &mut errors);
    }
    errors
}

/// Checks that the drivers that stay on a node change nothing but the number of attachable volumes
/// (upstream: `ValidateCSINodeUpdate`).
fn check_drivers_stay(object: &Value, old: &Value, errors: &mut Errors) {
    let fixed = |driver: &Value| {
        let mut fixed = driver.clone();
        if let Some(members) = fixed.as_object_mut() {
            members.remove("allocatable");
        }
        fixed
    };
    let (new, before) = (FieldPath::root(object), FieldPath::root(old));
    for known in before.down("spec.drivers").items() {
        for driver in new.down("spec.drivers").items() {
            let same = known.value()["name"] == driver.value()["name"];
            if same && fixed(known.value()) != fixed(driver.value()) {
                let field = new.down("spec.drivers");
                errors.invalid_written(&field, &written_driver(driver.value()), check::IMMUTABLE);
            }
        }
    }
}

/// Prints a driver of a node as Go prints its internal type, without the mutable field.
fn written_driver(driver: &Value) -> String {
    format!(
        "{{\"Name\":{},\"NodeID\":{},\"TopologyKeys\":{},\"Allocatable\":null}}",
        driver["name"], driver["nodeID"], driver["topologyKeys"]
    )
}

fn capacity(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    selector::check(&root.at("nodeTopology"), &mut errors);
    check::subdomain(&root.at("storageClassName"), &mut errors);
    let at = root.at("capacity");
    if amount(&at).is_some_and(|amount| amount.sign() < 0) {
        errors.invalid(&at, "must be greater than or equal to 0");
    }
    if let Some(old) = old {
        for field in ["nodeTopology", "storageClassName"] {
            check::immutable(&root.at(field), &old[field], &mut errors);
        }
    }
    errors
}

fn attachment(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    check::csi_driver(&spec.at("attacher"), &mut errors);
    let source = spec.at("source");
    let (name, inline) = (
        source.at("persistentVolumeName"),
        source.at("inlineVolumeSpec"),
    );
    let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (name.is_set(), inline.is_set()) {
        (true, true) => errors.forbidden(&source, detail),
        (false, false) => errors.required(&source, detail),
        (true, false) if name.is_empty() => {
            errors.required(&name, "must specify non empty persistentVolumeName");
        }
        _ => {}
    }
    check::subdomain(&spec.at("nodeName"), &mut errors);
    if let Some(old) = old {
        check::immutable_struct(&spec, &old["spec"], &ATTACHMENT_SPEC, &mut errors);
    }
    errors
}
