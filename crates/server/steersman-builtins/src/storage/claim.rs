//! Machine: PersistentVolumeClaims: defaults, validation, and which fields an update may change
//! (upstream: `ValidatePersistentVolumeClaimUpdate`).

use serde_json::{Value, json};
use steersman_apimachinery::{go, names};

use crate::Strategy;
use crate::fields::fill::{complete, copy, drop, given, part, put, set};
use crate::fields::shared_warnings::{self, CLASS_NOTE};
use crate::fields::{FieldPath, check, selector};
use crate::quota::{self, amount, is_native};

pub(crate) const CLAIM: Strategy = Strategy {
    defaults: |object| {
        if let Some(spec) = part(object, "spec") {
            spec_defaults(spec);
        }
        complete(object, json!({"status": {"phase": "Pending"}}));
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
    validate_status: |object, _| check_status(&object.at("status")),
    warn: |new, _| {
        shared_warnings::of_class_note(new);
        warn_of_spec(&new.at("spec"));
    },
    ..Strategy::PLAIN
};

/// States of the resize of a volume.
const RESIZES: &[&str] = &[
    "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress",
    "NodeResizeInfeasible", "NodeResizePending",
];

pub(crate) const MODES: &[&str] = &[
    "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod",
];

/// Checks a status. Upstream: `ValidatePersistentVolumeClaimStatusUpdate`.
fn check_status(status: &FieldPath<'_>) {
    for (_, at) in status.at("capacity").entries() {
        check_amount(&at);
    }
    let resizes = status.at("allocatedResourceStatuses");
    for (resource, resize) in resizes.entries() {
        check_resource(&resizes, resource);
        if !RESIZES.contains(&resize.text()) {
            resizes.not_supported_written(&go::quote(resource), RESIZES);
        }
    }
    let allocated = status.at("allocatedResources");
    for (resource, at) in allocated.entries() {
        if check_resource(&allocated, resource) {
            check_amount(&at);
        }
    }
}

/// Checks that a quantity is not negative. The error shows the number without its unit.
pub(crate) fn check_amount(at: &FieldPath<'_>) {
    let Some(negative) = amount(at).filter(|amount| amount.sign() < 0) else {
        return;
    };
    let shown = negative
        .whole()
        .map_or_else(|| at.value().clone(), Value::from);
    at.invalid_as(&shown, "must be a valid resource quantity");
}

/// Checks the name of a claim's resource: storage, or a name outside the domain of Kubernetes.
fn check_resource(at: &FieldPath<'_>, resource: &str) -> bool {
    at.passes(|at| {
        let wrong = names::check_key(resource);
        if wrong.is_empty() && is_native(resource) && resource != "storage" {
            at.not_supported_written(&json!(resource).to_string(), &["storage"]);
        }
        at.invalid_each(resource, wrong);
    })
}

/// Fills in the defaults of a claim's spec, also in a template.
pub(crate) fn spec_defaults(spec: &mut Value) {
    set(spec, "volumeMode", json!("Filesystem"));
    set(spec, "resources", json!({}));
}

/// Drops data sources that the server does not support: all kinds but claims and snapshots in `dataSource`, and sources
/// in other namespaces in `dataSourceRef` (upstream: `EnforceDataSourceBackwardsCompatibility` and
/// `DropDisabledFields`). Sources of the stored claim stay.
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

/// Sets the absent one of `dataSource` and `dataSourceRef` (upstream: `NormalizeDataSources`).
fn agree(spec: &mut Value) {
    let (source, reference) = (spec["dataSource"].clone(), spec["dataSourceRef"].clone());
    if source.is_object() && reference.is_null() {
        put(spec, "dataSourceRef", source);
    } else if reference.is_object() && source.is_null() && reference["namespace"].is_null() {
        put(spec, "dataSource", reference);
    }
}

pub(crate) fn check_modes(modes: &FieldPath<'_>) {
    let (mut single, mut other) = (false, false);
    for mode in modes.items() {
        let known = MODES.contains(&mode.text());
        if !known {
            // As upstream, the error names the list, not the element.
            modes.with(mode.value()).not_supported(MODES);
        }
        single |= mode.text() == "ReadWriteOncePod";
        other |= known && mode.text() != "ReadWriteOncePod";
    }
    if single && other {
        modes.forbidden("may not use ReadWriteOncePod with other access modes");
    }
}

pub(crate) fn check_spec(spec: &FieldPath<'_>) {
    let modes = spec.at("accessModes");
    modes.need("at least 1 access mode is required");
    selector::check(&spec.at("selector"));
    check_modes(&modes);
    let wanted = spec.down("resources.requests.storage");
    let resources = spec.named("resources", None);
    let storage = resources.key("storage").with(wanted.value());
    match amount(&storage) {
        None => storage.required(""),
        Some(amount) if amount.sign() <= 0 => storage.invalid("must be greater than zero"),
        Some(_) => quota::check_amount("storage", &storage),
    }
    spec.at("storageClassName").if_filled(check::subdomain);
    check::optional(&spec.at("volumeMode"), &["Block", "Filesystem"]);
    sources(spec);
    spec.at("volumeAttributesClassName")
        .if_filled(check::subdomain);
}

fn check_source(at: &FieldPath<'_>) {
    at.need_all(&["name", "kind"]);
    let [group, kind] = at.parts(["apiGroup", "kind"]);
    if group.is_empty() && kind.text() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        at.invalid_as(kind.text(), detail);
    }
    group.if_filled(check::subdomain);
    at.at("namespace").if_filled(check::label);
}

fn sources(spec: &FieldPath<'_>) {
    let [source, reference] = spec.parts(["dataSource", "dataSourceRef"]);
    source.if_set(check_source);
    reference.if_set(check_source);
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| source.at(field).value() == reference.at(field).value());
    if !reference.at("namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        spec.invalid_as(json!({}), detail);
    } else if !same {
        spec.invalid_as(json!({}), "must match dataSourceRef");
    }
}

/// Warns of sizes that are not a whole number of bytes.
pub(crate) fn warn_of_spec(spec: &FieldPath<'_>) {
    for part in spec.at("resources").parts(["requests", "limits"]) {
        shared_warnings::of_bytes(&part.key("storage"));
    }
}

fn validate(root: &FieldPath<'_>, old: Option<&Value>) {
    check_spec(&root.at("spec"));
    if let Some(old) = old {
        update(root, old);
    }
}

fn update(root: &FieldPath<'_>, old: &Value) {
    let spec = root.at("spec");
    let (mut now, mut before) = (spec.value().clone(), old["spec"].clone());
    if before["volumeName"].as_str().is_none_or(str::is_empty) {
        // The name of the volume may be set once.
        copy(&mut before, &now, "volumeName");
    }
    let note = root.down("metadata.annotations").key(CLASS_NOTE);
    let old_note = &old["metadata"]["annotations"][CLASS_NOTE];
    let class = now["storageClassName"].clone();
    let unnamed = before["storageClassName"].is_null() && !class.is_null();
    if unnamed && (old_note.is_null() || *old_note == class) {
        // A claim without a class may get a class.
        put(&mut before, "storageClassName", class);
    } else if note.value() != old_note {
        note.invalid_text(check::IMMUTABLE);
    }
    let size = |spec: &Value| spec["resources"]["requests"]["storage"].clone();
    let (new_size, old_size) = (size(&now), size(&before));
    if root.value()["status"]["phase"] == "Bound" {
        if let Some(requests) = given(&mut now, "resources").and_then(|r| given(r, "requests")) {
            put(requests, "storage", old_size.clone());
        }
        if !now["volumeAttributesClassName"].is_null() {
            copy(&mut now, &before, "volumeAttributesClassName");
        }
    }
    if now != before {
        // The real server appends the difference of two Go values to this message.
        spec.forbidden("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims");
    }
    let of = |value: &Value| amount(&root.with(value));
    let least = of(&old["status"]["capacity"]["storage"]);
    if let (Some(new), Some(old)) = (of(&new_size), of(&old_size))
        && new < old
        && least.map_or(new.sign() <= 0, |least| new <= least)
    {
        let requested = spec.down("resources.requests.storage");
        requested.forbidden("field can not be less than status.capacity");
    }
    let mode = root.shown_at("volumeMode", spec.at("volumeMode").value());
    check::immutable(&mode, &old["spec"]["volumeMode"]);
    let class = spec.at("volumeAttributesClassName");
    if !old["spec"]["volumeAttributesClassName"].is_null() {
        if !class.is_set() {
            class.forbidden("update from non-nil value to nil is forbidden");
        } else if class.is_empty() {
            class.forbidden("update from non-nil value to an empty string is forbidden");
        }
    }
}
