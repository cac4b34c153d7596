//! Machine: PersistentVolumes (upstream: `ValidatePersistentVolume`).

use serde_json::{Value, json};

use super::claim::{self, check_modes};
use super::sources::{self, Holder};
use crate::Strategy;
use crate::fields::fill::{complete, drop, given, list, part, put, set, set_text};
use crate::fields::go_value::{GoType, NODE_SELECTOR};
use crate::fields::shared_warnings::{self, RENAMED_LABELS};
use crate::fields::{FieldPath, check, node_selector};
use crate::quota::amount;

const REQUIRED_NODES: GoType = GoType::Struct(&[("required", GoType::Pointer(&NODE_SELECTOR))]);

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
    warn: |new, _| warn(new),
    ..Strategy::PLAIN
};

const MOUNT_NOTE: &str = "volume.beta.kubernetes.io/mount-options";

/// Warns of a volume, new or changed (upstream: `pkg/api/persistentvolume/util.go`).
fn warn(root: &FieldPath<'_>) {
    let spec = root.at("spec");
    shared_warnings::of_class_note(root);
    let note = root.down("metadata.annotations").key(MOUNT_NOTE);
    note.if_set(|note| note.warn("deprecated since v1.31; use \"mountOptions\" attribute instead"));
    let terms = spec.down("nodeAffinity.required.nodeSelectorTerms");
    terms.each(|term| shared_warnings::of_node_term(term, false));
    let policy = spec.at("persistentVolumeReclaimPolicy");
    if policy.text() == "Recycle" {
        policy.warn("The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.");
    }
    shared_warnings::of_sources(&spec, shared_warnings::OLD_SOURCES);
}

/// The volume sources in the order of upstream's checks.
const SOURCES: &[&str] = &[
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd",
    "quobyte", "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
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
    complete(object, json!({"status": {"phase": "Pending"}}));
}

fn validate(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let modes = spec.at("accessModes");
    modes.need("");
    check_modes(&modes);
    let capacity = spec.at("capacity");
    capacity.need("");
    if !capacity.key("storage").is_set() || capacity.len() > 1 {
        capacity.not_supported_written(&capacity.value().to_string(), &["storage"]);
    }
    for (_, at) in capacity.entries() {
        claim::check_amount(&at);
        if amount(&at).is_some_and(|amount| amount.sign() <= 0) {
            at.invalid("must be greater than zero");
        }
    }
    let policy = spec.at("persistentVolumeReclaimPolicy");
    policy.if_filled(|policy| check::one_of(policy, &["Delete", "Recycle", "Retain"]));
    spec.at("nodeAffinity").if_set(|affinity| {
        let required = affinity.at("required");
        required.if_set(node_selector::check_node_selector);
        required.need_set("must specify required node constraints");
    });
    let name = object.down("metadata.name").text();
    check_source(&spec, name);
    let root_path = spec.down("hostPath.path").text().trim_end_matches('/');
    if spec.at("hostPath").is_set() && root_path.is_empty() && policy.text() == "Recycle" {
        policy.forbidden("may not be 'recycle' for a hostPath mount of '/'");
    }
    spec.at("storageClassName").if_filled(check::subdomain);
    check::optional(&spec.at("volumeMode"), &["Block", "Filesystem"]);
    spec.at("volumeAttributesClassName").if_set(|class| {
        class.need("an empty string is disallowed");
        class.if_filled(check::subdomain);
        if !spec.at("csi").is_set() {
            let detail = "has to be specified when using volumeAttributesClassName";
            spec.at("csi").required(detail);
        }
    });
    if let Some(old) = old {
        update(&spec, &old["spec"]);
    }
}

/// Checks that a volume has exactly one source, and checks the source.
fn check_source(spec: &FieldPath<'_>, volume: &str) {
    let mut found = false;
    for field in SOURCES {
        // As upstream, errors name the volume `persistentDisk`.
        let is_disk = *field == "gcePersistentDisk";
        let named = if is_disk { "persistentDisk" } else { field };
        let at = spec.named(named, spec.value().get(field));
        if !at.is_set() {
            continue;
        }
        // The real server accepts `flexVolume` as a second source.
        if found && *field != "flexVolume" {
            let shown = if *field == "cephfs" { "cephFS" } else { field };
            spec.named(shown, None)
                .forbidden("may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match *field {
            "local" => check_local(spec, &at),
            "csi" => check_csi(&at),
            kind => sources::check(kind, &at, Holder::Volume),
        }
        let shown = at.named("targetportal", at.value().get("targetPortal"));
        sources::check_initiator(&at, volume.len(), &shown);
    }
    if !found {
        spec.required("must specify a volume type");
    }
}

fn check_local(spec: &FieldPath<'_>, at: &FieldPath<'_>) {
    check::required(&at.at("path"), check::no_backsteps);
    let affinity = spec.at("nodeAffinity");
    affinity.need_set("Local volume requires node affinity");
}

fn check_csi(at: &FieldPath<'_>) {
    check::csi_driver(&at.at("driver"));
    at.at("volumeHandle").need("");
    for secret in at.parts([
        "controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ]) {
        secret.if_set(|secret| {
            check::required(&secret.at("name"), check::subdomain);
            check::required(&secret.at("namespace"), check::label);
        });
    }
}

/// Returns the node affinity with the newer names of deprecated labels, by which an update may replace them.
fn renamed(affinity: &Value) -> Value {
    let mut affinity = affinity.clone();
    let terms = affinity.pointer_mut("/required/nodeSelectorTerms");
    for term in terms.and_then(Value::as_array_mut).into_iter().flatten() {
        for one in list(term, "matchExpressions") {
            let found = RENAMED_LABELS.iter().find(|(old, ..)| one["key"] == *old);
            if let Some((_, _, newer)) = found {
                put(one, "key", json!(newer));
            }
        }
    }
    affinity
}

fn update(spec: &FieldPath<'_>, old: &Value) {
    let source = |spec: &Value| -> Vec<Value> {
        let mut all: Vec<Value> = SOURCES.iter().map(|field| spec[*field].clone()).collect();
        // An update may add this secret reference.
        if old["csi"]["controllerExpandSecretRef"].is_null()
            && let Some(csi) = all.last_mut()
        {
            drop(csi, "controllerExpandSecretRef");
        }
        all
    };
    if source(spec.value()) != source(old) {
        // The real server appends the difference of two Go values to this message.
        let at = spec.named("persistentvolumesource", None);
        at.forbidden("spec.persistentvolumesource is immutable after creation");
    }
    let top = |field: &'static str| spec.shown_at(field, spec.at(field).value());
    check::immutable(&top("volumeMode"), &old["volumeMode"]);
    let affinity = top("nodeAffinity");
    if !old["nodeAffinity"].is_null() {
        let before = &old["nodeAffinity"];
        let same = affinity.value() == before || *affinity.value() == renamed(before);
        if !same {
            let detail = "field is immutable, except for updating from beta label to GA";
            affinity.invalid_printed(&VOLUME_AFFINITY, detail);
        }
    }
    let class = spec.at("volumeAttributesClassName");
    if !old["volumeAttributesClassName"].is_null() && !class.is_set() {
        class.forbidden("update from non-nil value to nil is forbidden");
    }
}
