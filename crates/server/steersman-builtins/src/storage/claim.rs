//! Machine: PersistentVolumeClaims: defaults, validation, and which fields an update may change
//! (upstream: `ValidatePersistentVolumeClaimUpdate`).

use serde_json::{Value, json};
use steersman_apimachinery::status::FieldError;
use steersman_apimachinery::{go, names};

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{drop, given, part, put, set};
use crate::fields::selector;
use crate::fields::shared_warnings::{self, CLASS_NOTE};
use crate::quota::{self, amount};

pub(crate) const CLAIM: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            spec_defaults(spec);
        }
        if let Some(status) = part(object, "status") {
            set(status, "phase", json!("Pending"));
        }
    },
    prepare: |object, old| {
        if old.is_none() {
            put(object, "status", json!({"phase": "Pending"}));
        }
        if let Some(spec) = given(object, "spec") {
            let before = old.map_or(&Value::Null, |old| &old["spec"]);
            keep_sources(spec, before);
            agree(spec);
        }
    },
    validate,
    validate_status: |object, _| check_status(&FieldPath::root(object).at("status")),
    warnings: |new, _| {
        let (root, mut warnings) = (FieldPath::root(new), Vec::new());
        shared_warnings::of_class_note(&root, &mut warnings);
        warn_of_spec(&root.at("spec"), &mut warnings);
        warnings
    },
    ..Strategy::PLAIN
};

/// States of the resize of a volume.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

/// Access modes of volumes.
pub(crate) const MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// Checks a status. Upstream: `ValidatePersistentVolumeClaimStatusUpdate`.
fn check_status(status: &FieldPath<'_>) -> Errors {
    let mut errors = Errors::default();
    for (_, at) in status.at("capacity").entries() {
        check_amount(&at, &mut errors);
    }
    let resizes = status.at("allocatedResourceStatuses");
    for (resource, resize) in resizes.entries() {
        check_resource(&resizes, resource, &mut errors);
        if !RESIZES.contains(&resize.text()) {
            let known: Vec<String> = RESIZES.iter().map(|one| go::quote(one)).collect();
            let named = go::quote(resource);
            errors.push(FieldError::not_supported(resizes.path(), &named, &known));
        }
    }
    let allocated = status.at("allocatedResources");
    for (resource, at) in allocated.entries() {
        if check_resource(&allocated, resource, &mut errors) {
            check_amount(&at, &mut errors);
        }
    }
    errors
}

/// Checks that a quantity is not negative. The error shows the number without its unit.
pub(crate) fn check_amount(at: &FieldPath<'_>, errors: &mut Errors) {
    let Some(negative) = amount(at).filter(|amount| amount.sign() < 0) else {
        return;
    };
    let shown = negative
        .whole()
        .map_or_else(|| at.value().clone(), Value::from);
    errors.invalid_as(at, &shown, "must be a valid resource quantity");
}

/// Checks the name of a claim's resource: storage, or a name outside the domain of Kubernetes.
fn check_resource(at: &FieldPath<'_>, resource: &str, errors: &mut Errors) -> bool {
    let value = json!(resource);
    let wrong = names::check_key(resource);
    for why in &wrong {
        errors.invalid_as(at, &value, why);
    }
    let own = !resource.contains('/') || resource.contains("kubernetes.io/");
    if wrong.is_empty() && own && resource != "storage" {
        let known = ["\"storage\"".to_owned()];
        errors.push(FieldError::not_supported(
            at.path(),
            &value.to_string(),
            &known,
        ));
        return false;
    }
    wrong.is_empty()
}

/// Fills in the defaults of a claim's spec, also in a template.
pub(crate) fn spec_defaults(spec: &mut Value) {
    set(spec, "volumeMode", json!("Filesystem"));
    set(spec, "resources", json!({}));
}

/// Drops data sources that the server does not support: all kinds but claims and snapshots in
/// `dataSource`, and sources in other namespaces in `dataSourceRef` (upstream:
/// `EnforceDataSourceBackwardsCompatibility` and `DropDisabledFields`). Sources of the stored claim
/// stay.
fn keep_sources(spec: &mut Value, before: &Value) {
    let foreign = |spec: &Value| {
        let namespace = spec["dataSourceRef"]["namespace"].as_str();
        namespace.is_some_and(|namespace| !namespace.is_empty())
    };
    if foreign(spec) && !foreign(before) {
        drop(spec, "dataSourceRef");
    }
    let used = !before["dataSource"].is_null() || !before["dataSourceRef"].is_null();
    let source = &spec["dataSource"];
    let text = |field: &str| source[field].as_str().unwrap_or_default();
    let known = matches!(
        (text("apiGroup"), text("kind")),
        ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
    );
    if !source.is_null() && !used && !known {
        drop(spec, "dataSource");
    }
}

/// Copies `dataSource` to `dataSourceRef` or back, if only one of the two is set (upstream:
/// `NormalizeDataSources`).
fn agree(spec: &mut Value) {
    let (source, reference) = (spec["dataSource"].clone(), spec["dataSourceRef"].clone());
    if source.is_object() && reference.is_null() {
        put(spec, "dataSourceRef", source);
    } else if reference.is_object() && source.is_null() && reference["namespace"].is_null() {
        put(spec, "dataSource", reference);
    }
}

/// Checks the access modes of a claim or a volume.
pub(crate) fn check_modes(modes: &FieldPath<'_>, errors: &mut Errors) {
    let (mut single, mut other) = (false, false);
    for mode in modes.items() {
        let known = MODES.contains(&mode.text());
        if !known {
            // As upstream, the error names the list, not the element.
            errors.not_supported(&FieldPath::new(modes.path(), mode.value()), MODES);
        }
        single |= mode.text() == "ReadWriteOncePod";
        other |= known && mode.text() != "ReadWriteOncePod";
    }
    if single && other {
        let detail = "may not use ReadWriteOncePod with other access modes";
        errors.forbidden(modes, detail);
    }
}

/// Checks the spec of a claim, or of a template of claims.
pub(crate) fn check_spec(spec: &FieldPath<'_>, errors: &mut Errors) {
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "at least 1 access mode is required");
    }
    selector::check(&spec.at("selector"), errors);
    check_modes(&modes, errors);
    let wanted = spec.down("resources.requests.storage");
    let storage = FieldPath::new(
        format!("{}.resources[storage]", spec.path()),
        wanted.value(),
    );
    match amount(&storage) {
        None => errors.required(&storage, ""),
        Some(amount) if amount.sign() <= 0 => {
            errors.invalid(&storage, "must be greater than zero");
        }
        Some(_) => quota::check_amount("storage", &storage, errors),
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        if field.starts_with("volume") {
            let mode = spec.at("volumeMode");
            if mode.is_set() {
                check::one_of(&mode, &["Block", "Filesystem"], errors);
            }
            sources(spec, errors);
        }
        if !spec.at(field).is_empty() {
            check::subdomain(&spec.at(field), errors);
        }
    }
}

fn sources(spec: &FieldPath<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    for at in [&source, &reference] {
        if !at.is_set() {
            continue;
        }
        for field in ["name", "kind"] {
            if at.at(field).is_empty() {
                errors.required(&at.at(field), "");
            }
        }
        let (group, kind) = (at.at("apiGroup"), at.at("kind"));
        if group.is_empty() && kind.text() != "PersistentVolumeClaim" {
            let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            errors.invalid_as(at, &json!(kind.text()), detail);
        }
        if !group.is_empty() {
            check::subdomain(&group, errors);
        }
        if !at.at("namespace").is_empty() {
            check::label(&at.at("namespace"), errors);
        }
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| source.at(field).value() == reference.at(field).value());
    if !reference.at("namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid_as(spec, &json!({}), detail);
    } else if !same {
        errors.invalid_as(spec, &json!({}), "must match dataSourceRef");
    }
}

/// Warns of sizes that are not a whole number of bytes.
pub(crate) fn warn_of_spec(spec: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for part in ["requests", "limits"] {
        shared_warnings::of_bytes(&spec.at("resources").at(part).key("storage"), warnings);
    }
}

fn validate(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let spec = root.at("spec");
    check_spec(&spec, &mut errors);
    if let Some(old) = old {
        update(&root, old, &mut errors);
    }
    errors
}

fn update(root: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    let spec = root.at("spec");
    let (mut now, mut before) = (spec.value().clone(), old["spec"].clone());
    if before["volumeName"].as_str().is_none_or(str::is_empty) {
        // The name of the volume may be set once.
        match now.get("volumeName").cloned() {
            Some(name) => put(&mut before, "volumeName", name),
            None => drop(&mut before, "volumeName"),
        }
    }
    let notes = (
        &root.value()["metadata"]["annotations"][CLASS_NOTE],
        &old["metadata"]["annotations"][CLASS_NOTE],
    );
    let class = now["storageClassName"].clone();
    let unnamed = before["storageClassName"].is_null() && !class.is_null();
    if unnamed && (notes.1.is_null() || *notes.1 == class) {
        // A claim without a class may get a class.
        put(&mut before, "storageClassName", class);
    } else if notes.0 != notes.1 {
        let path = format!("metadata.annotations[{CLASS_NOTE}]");
        errors.invalid_text(&FieldPath::new(path, notes.0), check::IMMUTABLE);
    }
    let size = |spec: &Value| spec["resources"]["requests"]["storage"].clone();
    let (new_size, old_size) = (size(&now), size(&before));
    if root.value()["status"]["phase"] == "Bound" {
        if let Some(requests) = given(&mut now, "resources").and_then(|r| given(r, "requests")) {
            put(requests, "storage", old_size.clone());
        }
        if !now["volumeAttributesClassName"].is_null() {
            match before.get("volumeAttributesClassName").cloned() {
                Some(name) => put(&mut now, "volumeAttributesClassName", name),
                None => drop(&mut now, "volumeAttributesClassName"),
            }
        }
    }
    if now != before {
        // The real server appends the difference of two Go values to this message.
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&spec, detail);
    }
    let of = |value: &Value| amount(&FieldPath::new("", value));
    let least = of(&old["status"]["capacity"]["storage"]);
    let requested = FieldPath::new("spec.resources.requests.storage", &new_size);
    if let (Some(new), Some(old)) = (of(&new_size), of(&old_size))
        && new < old
        && least.map_or(new.sign() <= 0, |least| new <= least)
    {
        errors.forbidden(&requested, "field can not be less than status.capacity");
    }
    let mode = FieldPath::new("volumeMode", spec.at("volumeMode").value());
    check::immutable(&mode, &old["spec"]["volumeMode"], errors);
    let class = spec.at("volumeAttributesClassName");
    if !old["spec"]["volumeAttributesClassName"].is_null() {
        if !class.is_set() {
            errors.forbidden(&class, "update from non-nil value to nil is forbidden");
        } else if class.is_empty() {
            let detail = "update from non-nil value to an empty string is forbidden";
            errors.forbidden(&class, detail);
        }
    }
}
