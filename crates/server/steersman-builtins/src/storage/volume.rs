//! Machine: PersistentVolumes (upstream: `ValidatePersistentVolume`).

use serde_json::{Value, json};

use super::claim::{self, check_modes};
use super::sources::{self, Holder};
use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{given, list, part, put, set, set_text};
use crate::fields::go_value::{self, GoType, NODE_SELECTOR};
use crate::fields::node_selector;
use crate::fields::shared_warnings;
use crate::quota::amount;

const REQUIRED_NODES: GoType =
    GoType::Struct(&[("Required", "required", GoType::Pointer(&NODE_SELECTOR))]);

/// The node affinity of a volume.
const VOLUME_AFFINITY: GoType = GoType::Pointer(&REQUIRED_NODES);

pub(crate) const VOLUME: Strategy = Strategy {
    defaults,
    prepare: |object, old| {
        if old.is_none() {
            let made = object["metadata"]["creationTimestamp"].clone();
            let status = json!({"phase": "Pending", "lastPhaseTransitionTime": made});
            put(object, "status", status);
        }
    },
    finish_status: Some(|new, old, now| {
        let (before, status) = (&old["status"], &new["status"]);
        let time = &status["lastPhaseTransitionTime"];
        let untold = time.is_null() || *time == before["lastPhaseTransitionTime"];
        if status["phase"] != before["phase"]
            && untold
            && let Some(status) = given(new, "status")
        {
            put(status, "lastPhaseTransitionTime", json!(now));
        }
    }),
    validate,
    warnings: |new, _| warn(&FieldPath::root(new)),
    ..Strategy::PLAIN
};

const MOUNT_NOTE: &str = "volume.beta.kubernetes.io/mount-options";

/// Returns the warnings about a volume, new or changed (upstream:
/// `pkg/api/persistentvolume/util.go`).
fn warn(root: &FieldPath<'_>) -> Vec<String> {
    let (spec, mut warnings) = (root.at("spec"), Vec::new());
    shared_warnings::of_class_note(root, &mut warnings);
    let note = root.down("metadata.annotations").key(MOUNT_NOTE);
    if note.is_set() {
        warnings.push(format!(
            "{}: deprecated since v1.31; use \"mountOptions\" attribute instead",
            note.path()
        ));
    }
    let terms = spec.down("nodeAffinity.required.nodeSelectorTerms");
    for term in terms.items() {
        shared_warnings::of_node_term(&term, false, &mut warnings);
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        warnings.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            policy.path()
        ));
    }
    shared_warnings::of_sources(&spec, shared_warnings::OLD_SOURCES, &mut warnings);
    warnings
}

/// The volume sources in the order of upstream's checks, each with its path in messages.
const SOURCES: &[(&str, &str)] = &[
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "persistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephfs"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// Labels of nodes that an update of the node affinity may rename: the deprecated name and the new
/// one.
const RENAMED: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
];

fn defaults(object: &mut Value) {
    if let Some(spec) = part(object, "spec") {
        set_text(spec, "persistentVolumeReclaimPolicy", "Retain");
        set(spec, "volumeMode", json!("Filesystem"));
        if let Some(path) = given(spec, "hostPath") {
            set(path, "type", json!(""));
        }
        if let Some(iscsi) = given(spec, "iscsi") {
            set_text(iscsi, "iscsiInterface", "default");
        }
        if let Some(rbd) = given(spec, "rbd") {
            for (name, default) in [
                ("pool", "rbd"),
                ("user", "admin"),
                ("keyring", "/etc/ceph/keyring"),
            ] {
                set_text(rbd, name, default);
            }
        }
    }
    if let Some(status) = part(object, "status") {
        set(status, "phase", json!("Pending"));
    }
}

fn validate(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    let modes = spec.at("accessModes");
    if modes.is_empty() {
        errors.required(&modes, "");
    }
    check_modes(&modes, &mut errors);
    let capacity = spec.at("capacity");
    if capacity.is_empty() {
        errors.required(&capacity, "");
    }
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        let shown = FieldPath::new(capacity.path(), capacity.value());
        let value = capacity.value().to_string();
        let supported = ["\"storage\"".to_owned()];
        errors.push(steersman_apimachinery::status::FieldError::not_supported(
            shown.path(),
            &value,
            &supported,
        ));
    }
    for (_, at) in capacity.entries() {
        let sign = amount(&at).map(steersman_apimachinery::quantity::Quantity::sign);
        claim::check_amount(&at, &mut errors);
        if sign.is_some_and(|sign| sign <= 0) {
            errors.invalid(&at, "must be greater than zero");
        }
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        check::one_of(&policy, &["Delete", "Recycle", "Retain"], &mut errors);
    }
    let affinity = spec.at("nodeAffinity");
    if affinity.is_set() {
        let required = affinity.at("required");
        if required.is_set() {
            node_selector::check_node_selector(&required, &mut errors);
        } else {
            errors.required(&required, "must specify required node constraints");
        }
    }
    let name = FieldPath::root(object).down("metadata.name").text();
    check_source(&spec, name, &mut errors);
    let root_path = spec.down("hostPath.path").text().trim_end_matches('/');
    if spec.at("hostPath").is_set() && root_path.is_empty() && policy.text() == "Recycle" {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(&policy, detail);
    }
    if !spec.at("storageClassName").is_empty() {
        check::subdomain(&spec.at("storageClassName"), &mut errors);
    }
    let mode = spec.at("volumeMode");
    if mode.is_set() {
        check::one_of(&mode, &["Block", "Filesystem"], &mut errors);
    }
    attributes(&spec, &mut errors);
    if let Some(old) = old {
        update(&spec, &old["spec"], &mut errors);
    }
    errors
}

fn attributes(spec: &FieldPath<'_>, errors: &mut Errors) {
    let class = spec.at("volumeAttributesClassName");
    if !class.is_set() {
        return;
    }
    if class.is_empty() {
        errors.required(&class, "an empty string is disallowed");
    } else {
        check::subdomain(&class, errors);
    }
    if !spec.at("csi").is_set() {
        let detail = "has to be specified when using volumeAttributesClassName";
        errors.required(&spec.at("csi"), detail);
    }
}

/// Checks that a volume has exactly one source, and checks the source.
fn check_source(spec: &FieldPath<'_>, volume: &str, errors: &mut Errors) {
    let mut found = false;
    for (field, named) in SOURCES {
        let given = spec.at(field);
        if !given.is_set() {
            continue;
        }
        // The real server accepts `flexVolume` as a second source.
        if found && *field != "flexVolume" {
            let shown = if *field == "cephfs" { "cephFS" } else { field };
            let field = spec.named(shown, None);
            errors.forbidden(&field, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let at = spec.named(named, Some(given.value()));
        match *field {
            "local" => check_local(spec, &at, errors),
            "csi" => check_csi(&at, errors),
            kind => sources::check(kind, &at, Holder::Volume, errors),
        }
        let portal = at.at("targetPortal");
        if at.at("initiatorName").is_set() && volume.len() + 1 + portal.len() > 64 {
            let shown = at.named("targetportal", Some(portal.value()));
            let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
            errors.invalid_text(&shown, detail);
        }
    }
    if !found {
        errors.required(spec, "must specify a volume type");
    }
}

fn check_local(spec: &FieldPath<'_>, at: &FieldPath<'_>, errors: &mut Errors) {
    let path = at.at("path");
    if path.is_empty() {
        errors.required(&path, "");
    } else {
        check::no_backsteps(&path, path.text(), errors);
    }
    let affinity = spec.at("nodeAffinity");
    if !affinity.is_set() {
        errors.required(&affinity, "Local volume requires node affinity");
    }
}

fn check_csi(at: &FieldPath<'_>, errors: &mut Errors) {
    check::csi_driver(&at.at("driver"), errors);
    sources::need(at, &["volumeHandle"], errors);
    for secret in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        sources::check_driver_secret(&at.at(secret), errors);
    }
}

/// Returns the node affinity with deprecated keys replaced by the new ones.
fn renamed(affinity: &Value) -> Value {
    let mut affinity = affinity.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms");
    for term in terms.and_then(Value::as_array_mut).into_iter().flatten() {
        for one in list(term, "matchExpressions") {
            let found = RENAMED.iter().find(|(old, _)| one["key"] == *old);
            if let Some((_, newer)) = found {
                put(one, "key", json!(newer));
            }
        }
    }
    affinity
}

fn update(spec: &FieldPath<'_>, old: &Value, errors: &mut Errors) {
    let source = |spec: &Value| -> Vec<Value> {
        let mut all: Vec<Value> = SOURCES
            .iter()
            .map(|(field, _)| spec[*field].clone())
            .collect();
        // An update may add this secret reference.
        if old["csi"]["controllerExpandSecretRef"].is_null()
            && let Some(csi) = all.last_mut().and_then(Value::as_object_mut)
        {
            csi.remove("controllerExpandSecretRef");
        }
        all
    };
    if source(spec.value()) != source(old) {
        // The real server appends the difference of two Go values to this message.
        let at = spec.named("persistentvolumesource", None);
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&at, detail);
    }
    let mode = FieldPath::new("volumeMode", spec.at("volumeMode").value());
    check::immutable(&mode, &old["volumeMode"], errors);
    let affinity = FieldPath::new("nodeAffinity", spec.at("nodeAffinity").value());
    if !old["nodeAffinity"].is_null() {
        let before = &old["nodeAffinity"];
        let same = affinity.value() == before || *affinity.value() == renamed(before);
        if !same {
            let detail = "field is immutable, except for updating from beta label to GA";
            let printed = go_value::print(&VOLUME_AFFINITY, affinity.value());
            errors.invalid_written(&affinity, &printed, detail);
        }
    }
    let class = spec.at("volumeAttributesClassName");
    if !old["volumeAttributesClassName"].is_null() && !class.is_set() {
        errors.forbidden(&class, "update from non-nil value to nil is forbidden");
    }
}
