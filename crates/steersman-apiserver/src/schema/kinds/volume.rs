//! Machine: PersistentVolumes and what they are made of (upstream: `ValidatePersistentVolume`).

use serde_json::{Value, json};

use super::Kind;
use super::check;
use super::claim::check_modes;
use super::fill::{given, part, put, set, set_text};
use super::notes;
use super::place::{Errors, Place};
use super::quota::amount;

pub(super) const VOLUME: Kind = Kind {
    defaults,
    prepare: |object, old| {
        if old.is_none() {
            let made = object["metadata"]["creationTimestamp"].clone();
            let status = json!({"phase": "Pending", "lastPhaseTransitionTime": made});
            put(object, "status", status);
        }
    },
    validate,
    warnings: |new, _| warn(&Place::root(new)),
    ..Kind::PLAIN
};

const MOUNT_NOTE: &str = "volume.beta.kubernetes.io/mount-options";

/// The warnings about a volume, new or changed (upstream: `pkg/api/persistentvolume/util.go`).
fn warn(root: &Place<'_>) -> Vec<String> {
    let (spec, mut told) = (root.at("spec"), Vec::new());
    notes::of_class_note(root, &mut told);
    let note = root.down("metadata.annotations").key(MOUNT_NOTE);
    if note.is_set() {
        told.push(format!(
            "{}: deprecated since v1.31; use \"mountOptions\" attribute instead",
            note.path()
        ));
    }
    let terms = spec.down("nodeAffinity.required.nodeSelectorTerms");
    for term in terms.items() {
        notes::of_node_term(&term, false, &mut told);
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        told.push(format!(
            "{}: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            policy.path()
        ));
    }
    notes::of_sources(&spec, notes::OLD_SOURCES, &mut told);
    told
}

/// The sources in the order in which they are looked at: where messages find each, and which of
/// their fields must be there.
const SOURCES: &[(&str, &str, &[&str])] = &[
    ("hostPath", "hostPath", &["path"]),
    ("gcePersistentDisk", "persistentDisk", &["pdName"]),
    (
        "awsElasticBlockStore",
        "awsElasticBlockStore",
        &["volumeID"],
    ),
    ("glusterfs", "glusterfs", &["endpoints", "path"]),
    ("flocker", "flocker", &[]),
    ("nfs", "nfs", &["server", "path"]),
    ("rbd", "rbd", &["monitors", "image"]),
    ("quobyte", "quobyte", &["registry", "volume"]),
    ("cephfs", "cephfs", &["monitors"]),
    ("iscsi", "iscsi", &["targetPortal", "iqn"]),
    ("cinder", "cinder", &["volumeID"]),
    ("fc", "fc", &[]),
    ("flexVolume", "flexVolume", &["driver"]),
    ("azureFile", "azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", "vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", "photonPersistentDisk", &["pdID"]),
    ("portworxVolume", "portworxVolume", &["volumeID"]),
    ("azureDisk", "azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", "scaleIO", &["gateway", "system", "volumeName"]),
    ("local", "local", &["path"]),
    ("storageos", "storageos", &[]),
    ("csi", "csi", &["driver", "volumeHandle"]),
];

const HOST_TYPES: &[&str] = &[
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
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
    let spec = Place::root(object).at("spec");
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
        let shown = Place::new(capacity.path(), capacity.value());
        let value = capacity.value().to_string();
        let supported = ["\"storage\"".to_owned()];
        errors.push(crate::status::FieldError::not_supported(
            shown.path(),
            &value,
            &supported,
        ));
    }
    for (_, at) in capacity.entries() {
        let sign = amount(&at).map(super::super::quantity::Quantity::sign);
        if sign.is_some_and(|sign| sign < 0) {
            errors.invalid(&at, "must be a valid resource quantity");
        }
        if sign.is_some_and(|sign| sign <= 0) {
            errors.invalid(&at, "must be greater than zero");
        }
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        check::one_of(&policy, &["Delete", "Recycle", "Retain"], &mut errors);
    }
    check_source(&spec, &mut errors);
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

fn attributes(spec: &Place<'_>, errors: &mut Errors) {
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

/// Exactly one source, with what it needs.
fn check_source(spec: &Place<'_>, errors: &mut Errors) {
    let mut found = false;
    for (field, named, needed) in SOURCES {
        let given = spec.at(field);
        if !given.is_set() {
            continue;
        }
        if found {
            errors.forbidden(&given, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        let at = spec.named(named, Some(given.value()));
        for name in *needed {
            if at.at(name).is_empty() {
                errors.required(&at.at(name), "");
            }
        }
        details(spec, field, &at, errors);
    }
    if !found {
        errors.required(spec, "must specify a volume type");
    }
}

fn details(spec: &Place<'_>, field: &str, at: &Place<'_>, errors: &mut Errors) {
    let path = at.at("path");
    let steps_back = path.text().split('/').any(|step| step == "..");
    match field {
        "hostPath" => {
            if steps_back {
                errors.invalid(&path, "must not contain '..'");
            }
            if at.at("type").is_set() {
                check::one_of(&at.at("type"), HOST_TYPES, errors);
            }
        }
        "local" => {
            if !path.is_empty() && steps_back {
                errors.invalid(&path, "must not contain '..'");
            }
            if spec.down("nodeAffinity.required").is_empty() {
                let affinity = spec.at("nodeAffinity");
                errors.required(&affinity, "Local volume requires node affinity");
            }
        }
        "nfs" if !path.is_empty() && !path.text().starts_with('/') => {
            errors.invalid(&path, "must be an absolute path");
        }
        "csi" => {
            for secret in [
                "controllerPublishSecretRef",
                "controllerExpandSecretRef",
                "nodePublishSecretRef",
                "nodeExpandSecretRef",
            ] {
                let secret = at.at(secret);
                for name in ["name", "namespace"] {
                    if secret.is_set() && secret.at(name).is_empty() {
                        errors.required(&secret.at(name), "");
                    }
                }
            }
        }
        _ => {}
    }
}

fn update(spec: &Place<'_>, old: &Value, errors: &mut Errors) {
    let source = |spec: &Value| -> Vec<Value> {
        let mut all: Vec<Value> = SOURCES
            .iter()
            .map(|(field, _, _)| spec[*field].clone())
            .collect();
        // This secret may come later.
        if old["csi"]["controllerExpandSecretRef"].is_null()
            && let Some(csi) = all.last_mut().and_then(Value::as_object_mut)
        {
            csi.remove("controllerExpandSecretRef");
        }
        all
    };
    if source(spec.value()) != source(old) {
        // The real server goes on with the difference of two Go values.
        let at = spec.named("persistentvolumesource", None);
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.forbidden(&at, detail);
    }
    let mode = Place::new("volumeMode", spec.at("volumeMode").value());
    check::immutable(&mode, &old["volumeMode"], errors);
    let affinity = Place::new("nodeAffinity", spec.at("nodeAffinity").value());
    if !old["nodeAffinity"].is_null() {
        check::immutable(&affinity, &old["nodeAffinity"], errors);
    }
    let class = spec.at("volumeAttributesClassName");
    if !old["volumeAttributesClassName"].is_null() && !class.is_set() {
        errors.forbidden(&class, "update from non-nil value to nil is forbidden");
    }
}
