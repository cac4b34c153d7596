//! Machine: the volumes of a Pod: each has one source, and each source what it needs.

use serde_json::Value;

use crate::schema::kinds::check;
use crate::schema::kinds::claim;
use crate::schema::kinds::place::{Errors, Place};
use crate::schema::kinds::selector;
use crate::schema::quantity::Quantity;

use super::Whose;
use super::env;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The sources a volume may have, in the order in which they are looked at.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

/// What sources need and nothing else is checked of.
const NEEDS: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("gitRepo", &["repository"]),
    ("glusterfs", &["endpoints", "path"]),
    ("nfs", &["server", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

/// Checks the volumes of a Pod or a template (upstream: `ValidateVolumes`).
pub(super) fn check(volumes: &Place<'_>, whose: Whose<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for volume in volumes.items() {
        let mut wrong = Errors::default();
        let name = volume.at("name");
        check_sources(&volume, whose, &mut wrong);
        if name.is_empty() {
            wrong.required(&name, "");
        } else {
            check::label(&name, &mut wrong);
        }
        if seen.contains(&name.text()) {
            wrong.duplicate(&name);
        }
        if wrong.is_empty() {
            seen.push(name.text());
        }
        errors.extend(wrong);
    }
}

fn check_sources(volume: &Place<'_>, whose: Whose<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in SOURCES {
        let source = volume.at(kind);
        if !source.is_set() {
            continue;
        }
        if found {
            // The real server misspells two of them here.
            let shown = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            let place = volume.named(shown, None);
            errors.forbidden(&place, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        check_source(kind, volume, &source, whose, errors);
    }
    if !found {
        errors.required(volume, "must specify a volume type");
    }
}

/// Fields that must not be empty.
fn need(source: &Place<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if source.at(field).is_empty() {
            errors.required(&source.at(field), "");
        }
    }
}

fn mode(at: &Place<'_>, errors: &mut Errors) {
    if at.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.invalid(at, MODE);
    }
}

fn partition(at: &Place<'_>, errors: &mut Errors) {
    if !(0..=255).contains(&at.int()) {
        errors.invalid(at, "must be between 1 and 255, inclusive");
    }
}

fn check_source(
    kind: &str,
    volume: &Place<'_>,
    source: &Place<'_>,
    whose: Whose<'_>,
    errors: &mut Errors,
) {
    if let Some((_, fields)) = NEEDS.iter().find(|(name, _)| *name == kind) {
        need(source, fields, errors);
    }
    match kind {
        "emptyDir" => {
            let limit = source.at("sizeLimit");
            if Quantity::parse(limit.text()).is_ok_and(|limit| limit.sign() < 0) {
                errors.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "hostPath" => check_host_path(source, errors),
        "gitRepo" => {
            let directory = source.at("directory");
            check::descending_path(&directory, directory.text(), errors);
        }
        "gcePersistentDisk" => {
            // Messages name it by its older name.
            let shown = volume.named("persistentDisk", Some(source.value()));
            need(&shown, &["pdName"], errors);
            partition(&shown.at("partition"), errors);
        }
        "awsElasticBlockStore" => partition(&source.at("partition"), errors),
        "secret" => check_keys(source, "secretName", errors),
        "configMap" => check_keys(source, "name", errors),
        "nfs" if !source.at("path").text().starts_with('/') => {
            errors.invalid_text(&source.at("path"), "must be an absolute path");
        }
        "iscsi" => check_iscsi(volume, source, errors),
        "flocker" => check_flocker(source, errors),
        "cinder" | "storageos" => secret_name(source, "secretRef", errors),
        "quobyte" => {
            if source.at("registry").is_empty() {
                let detail = "must be a host:port pair or multiple pairs separated by commas";
                errors.required(&source.at("registry"), detail);
            }
            need(source, &["volume"], errors);
        }
        "downwardAPI" => {
            mode(&source.at("defaultMode"), errors);
            for file in source.at("items").items() {
                // Messages name the volume rather than the file.
                check_file(&Place::new(source.path(), file.value()), errors);
            }
        }
        "fc" => check_fc(source, errors),
        "flexVolume" => check_flex(source, errors),
        "projected" => {
            mode(&source.at("defaultMode"), errors);
            check_projections(source, errors);
        }
        "csi" => check_csi(source, errors),
        "ephemeral" => check_ephemeral(volume, source, whose, errors),
        "image" => check_image(source, errors),
        _ => {}
    }
}

fn check_host_path(source: &Place<'_>, errors: &mut Errors) {
    const TYPES: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = source.at("path");
    if path.is_empty() {
        errors.required(&path, "");
        return;
    }
    check::no_backsteps(&path, path.text(), errors);
    if source.at("type").is_set() {
        check::one_of(&source.at("type"), TYPES, errors);
    }
}

/// Files made of the keys of a ConfigMap or a Secret.
fn check_keys(source: &Place<'_>, name: &str, errors: &mut Errors) {
    need(source, &[name], errors);
    mode(&source.at("defaultMode"), errors);
    for item in source.at("items").items() {
        check_item(&item, errors);
    }
}

fn secret_name(source: &Place<'_>, field: &str, errors: &mut Errors) {
    let secret = source.at(field);
    if secret.is_set() {
        need(&secret, &["name"], errors);
    }
}

fn check_item(item: &Place<'_>, errors: &mut Errors) {
    need(item, &["key", "path"], errors);
    let path = item.at("path");
    check::free_path(&path, path.text(), errors);
    mode(&item.at("mode"), errors);
}

fn check_iscsi(volume: &Place<'_>, source: &Place<'_>, errors: &mut Errors) {
    need(source, &["targetPortal"], errors);
    let iqn = source.at("iqn");
    let known = |text: &str| {
        ["iqn", "eui", "naa"]
            .iter()
            .any(|kind| text.starts_with(kind))
    };
    if iqn.is_empty() {
        errors.required(&iqn, "");
    } else if !known(iqn.text()) {
        errors.invalid(&iqn, "must be valid format starting with iqn, eui, or naa");
    }
    check::in_range(&source.at("lun"), 0, 255, errors);
    let chap = source.at("chapAuthDiscovery").flag() || source.at("chapAuthSession").flag();
    if chap && !source.at("secretRef").is_set() {
        errors.required(&source.at("secretRef"), "");
    }
    let initiator = source.at("initiatorName");
    if !initiator.is_set() {
        return;
    }
    if !known(initiator.text()) {
        let place = source.named("initiatorname", Some(initiator.value()));
        errors.invalid(
            &place,
            "must be valid format starting with iqn, eui, or naa",
        );
    }
    let name = volume.at("name");
    if name.len() + 1 + source.at("targetPortal").len() > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid_text(&name, detail);
    }
}

fn check_flocker(source: &Place<'_>, errors: &mut Errors) {
    let (name, uuid) = (source.at("datasetName"), source.at("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(source, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        errors.invalid_as(source, &Value::from("resource"), detail);
    }
    if name.text().contains('/') {
        errors.invalid(&name, "must not contain '/'");
    }
}

fn check_fc(source: &Place<'_>, errors: &mut Errors) {
    let (targets, ids, lun) = (
        source.at("targetWWNs"),
        source.at("wwids"),
        source.at("lun"),
    );
    if targets.is_empty() && ids.is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.required(&targets, detail);
    }
    if !targets.is_empty() && !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        errors.invalid(&targets, detail);
    }
    if !targets.is_empty() {
        if lun.is_set() {
            check::in_range(&lun, 0, 255, errors);
        } else {
            errors.required(&lun, "lun is required if targetWWNs is specified");
        }
    }
}

fn check_flex(source: &Place<'_>, errors: &mut Errors) {
    need(source, &["driver"], errors);
    for (key, option) in source.at("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid_as(&option, &Value::from(key), detail);
        }
    }
}

fn check_csi(source: &Place<'_>, errors: &mut Errors) {
    check::csi_driver(&source.at("driver"), errors);
    let secret = source.at("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.at("name");
        if name.is_empty() {
            errors.required(&name, "");
        } else {
            check::subdomain(&name, errors);
        }
    }
}

fn check_ephemeral(volume: &Place<'_>, source: &Place<'_>, whose: Whose<'_>, errors: &mut Errors) {
    let template = source.at("volumeClaimTemplate");
    if template.is_set() {
        claim::check_spec(&template.at("spec"), errors);
    } else {
        errors.required(&template, "");
    }
    let name = volume.at("name");
    if let Whose::Pod(pod) = whose
        && !pod.is_empty()
        && !name.is_empty()
    {
        let claim = format!("{pod}-{}", name.text());
        let rule = crate::schema::names::NameRule::Subdomain;
        for detail in crate::schema::names::check_name(rule, &claim) {
            errors.invalid(&name, &format!("PVC name {claim:?}: {detail}"));
        }
    }
}

fn check_image(source: &Place<'_>, errors: &mut Errors) {
    need(source, &["reference"], errors);
    let policy = source.at("pullPolicy");
    if policy.is_set() {
        check::required_one_of(&policy, &["Always", "IfNotPresent", "Never"], errors);
    }
}

/// Checks a file of the downward API (upstream: `validateDownwardAPIVolumeFile`).
fn check_file(file: &Place<'_>, errors: &mut Errors) {
    need(file, &["path"], errors);
    let path = file.at("path");
    check::free_path(&path, path.text(), errors);
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if field.is_set() {
        env::check_field(&field, env::FIELDS_OF_FILES, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid_as(file, &Value::from("resource"), detail);
        }
    } else if resource.is_set() {
        env::check_resource(&resource, true, errors);
    } else {
        errors.required(file, "one of fieldRef and resourceFieldRef is required");
    }
    mode(&file.at("mode"), errors);
}

/// Checks the sources of a projected volume (upstream: `validateProjectionSources`).
fn check_projections(volume: &Place<'_>, errors: &mut Errors) {
    let mut paths: Vec<String> = Vec::new();
    let mut once = |path: &str, shown: &str, errors: &mut Errors| {
        if paths.iter().any(|one| one == path) {
            errors.invalid_as(volume, &Value::from(shown), "conflicting duplicate paths");
        } else {
            paths.push(path.to_owned());
        }
    };
    for source in volume.at("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let place = source.at(kind);
            if !place.is_set() {
                continue;
            }
            kinds += 1;
            need(&place, &["name"], errors);
            for item in place.at("items").items() {
                check_item(&item, errors);
                if !item.at("path").is_empty() {
                    once(item.at("path").text(), place.at("name").text(), errors);
                }
            }
        }
        let downward = source.at("downwardAPI");
        if downward.is_set() {
            kinds += 1;
            for file in downward.at("items").items() {
                check_file(&Place::new(downward.path(), file.value()), errors);
                let path = file.at("path").text();
                if !path.is_empty() {
                    once(path, path, errors);
                }
            }
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            kinds += 1;
            let seconds = token.at("expirationSeconds");
            if seconds.int() < 600 {
                errors.invalid(&seconds, "may not specify a duration less than 10 minutes");
            }
            if seconds.int() > 1 << 32 {
                errors.invalid(
                    &seconds,
                    "may not specify a duration larger than 2^32 seconds",
                );
            }
            let path = volume.named("path", Some(token.at("path").value()));
            if path.is_empty() {
                errors.required(&path, "");
            } else {
                check::free_path(&path, path.text(), errors);
            }
        }
        let bundle = source.at("clusterTrustBundle");
        if bundle.is_set() {
            kinds += 1;
            check_bundle(&bundle, errors);
            let path = bundle.at("path").text();
            once(path, path, errors);
        }
        if kinds > 1 {
            errors.forbidden(
                &source,
                "may not specify more than 1 volume type per source",
            );
        }
    }
}

fn check_bundle(bundle: &Place<'_>, errors: &mut Errors) {
    let (name, signer) = (bundle.at("name"), bundle.at("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            errors.invalid(bundle, "only one of name and signerName may be used");
        }
        (true, false) => {
            if name.is_empty() {
                errors.required(&name, "must be a valid object name");
            }
            if bundle.at("labelSelector").is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&bundle.at("labelSelector"), detail);
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errors.required(&signer, "must be a valid signer name");
            }
            selector::check(&bundle.at("labelSelector"), errors);
        }
        (false, false) => {
            errors.required(bundle, "either name or signerName must be specified");
        }
    }
    need(bundle, &["path"], errors);
    let path = bundle.at("path");
    check::free_path(&path, path.text(), errors);
}
