//! Machine: checks the volumes of a Pod: each has one source, and each source its required fields.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::reference;
use crate::fields::selector;
use crate::storage::claim;
use crate::storage::sources;
use crate::storage::sources::{Holder, need};

use super::SpecOwner;
use super::env;

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The volume sources, in the order of upstream's checks.
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

/// Checks the volumes of a Pod or a template. Returns the valid volumes by name (upstream:
/// `ValidateVolumes`).
pub(super) fn check<'a>(
    volumes: &FieldPath<'a>,
    owner: SpecOwner<'_>,
    errors: &mut Errors,
) -> HashMap<&'a str, FieldPath<'a>> {
    let mut valid: HashMap<&str, FieldPath<'_>> = HashMap::new();
    for volume in volumes.items() {
        let mut wrong = Errors::default();
        let name = volume.at("name");
        check_sources(&volume, owner, &mut wrong);
        if name.is_empty() {
            wrong.required(&name, "");
        } else {
            check::label(&name, &mut wrong);
        }
        if valid.contains_key(name.text()) {
            wrong.duplicate(&name);
        }
        if wrong.is_empty() {
            valid.insert(name.text(), volume);
        }
        errors.extend(wrong);
    }
    if let SpecOwner::Pod(pod) = owner {
        check_claims(volumes, pod, errors);
    }
    valid
}

/// Checks that no volume names the claim that is created for an ephemeral volume of the Pod.
fn check_claims(volumes: &FieldPath<'_>, pod: &str, errors: &mut Errors) {
    let made = volumes
        .items()
        .filter(|volume| volume.at("ephemeral").is_set());
    let made: HashSet<String> = made
        .map(|volume| format!("{pod}-{}", volume.at("name").text()))
        .collect();
    for volume in volumes.items() {
        let claim = volume.down("persistentVolumeClaim.claimName");
        if made.contains(claim.text()) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&claim, detail);
        }
    }
}

fn check_sources(volume: &FieldPath<'_>, owner: SpecOwner<'_>, errors: &mut Errors) {
    let mut found = false;
    for kind in SOURCES {
        let source = volume.at(kind);
        if !source.is_set() {
            continue;
        }
        if found {
            // The real server's messages misspell two of the names.
            let shown = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                kind => kind,
            };
            let field = volume.named(shown, None);
            errors.forbidden(&field, "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        check_source(kind, volume, &source, owner, errors);
    }
    if !found {
        errors.required(volume, "must specify a volume type");
    }
}

fn mode(at: &FieldPath<'_>, errors: &mut Errors) {
    if at.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.invalid(at, MODE);
    }
}

fn check_source(
    kind: &str,
    volume: &FieldPath<'_>,
    source: &FieldPath<'_>,
    owner: SpecOwner<'_>,
    errors: &mut Errors,
) {
    match kind {
        "emptyDir" => {
            let limit = source.at("sizeLimit");
            if Quantity::parse(limit.text()).is_ok_and(|limit| limit.sign() < 0) {
                errors.forbidden(&limit, "SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            need(source, &["repository"], errors);
            let directory = source.at("directory");
            check::descending_path(&directory, directory.text(), errors);
        }
        "gcePersistentDisk" => {
            // As upstream, errors name the volume `persistentDisk`.
            let shown = volume.named("persistentDisk", Some(source.value()));
            sources::check(kind, &shown, Holder::Pod, errors);
        }
        "persistentVolumeClaim" => need(source, &["claimName"], errors),
        "secret" => check_keys(source, "secretName", errors),
        "configMap" => check_keys(source, "name", errors),
        "downwardAPI" => {
            mode(&source.at("defaultMode"), errors);
            for file in source.at("items").items() {
                // As upstream, errors name the source, not the file.
                check_file(&FieldPath::new(source.path(), file.value()), errors);
            }
        }
        "projected" => {
            mode(&source.at("defaultMode"), errors);
            check_projections(source, errors);
        }
        "csi" => check_csi(source, errors),
        "ephemeral" => check_ephemeral(volume, source, owner, errors),
        "image" => check_image(source, owner, errors),
        _ => sources::check(kind, source, Holder::Pod, errors),
    }
    let name = volume.at("name");
    let portal = source.at("targetPortal").len();
    if source.at("initiatorName").is_set() && name.len() + 1 + portal > 64 {
        let detail = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid_text(&name, detail);
    }
}

/// Checks files with the values of keys of a ConfigMap or a Secret.
fn check_keys(source: &FieldPath<'_>, name: &str, errors: &mut Errors) {
    need(source, &[name], errors);
    mode(&source.at("defaultMode"), errors);
    for item in source.at("items").items() {
        check_item(&item, errors);
    }
}

fn check_item(item: &FieldPath<'_>, errors: &mut Errors) {
    need(item, &["key", "path"], errors);
    let path = item.at("path");
    check::free_path(&path, path.text(), errors);
    mode(&item.at("mode"), errors);
}

fn check_csi(source: &FieldPath<'_>, errors: &mut Errors) {
    check::csi_driver(&source.at("driver"), errors);
    let secret = source.at("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.at("name");
        if name.is_empty() {
            errors.required(&name, "");
        } else {
            let shown = source.named("name", Some(name.value()));
            check::subdomain(&shown, errors);
        }
    }
}

fn check_ephemeral(
    volume: &FieldPath<'_>,
    source: &FieldPath<'_>,
    owner: SpecOwner<'_>,
    errors: &mut Errors,
) {
    let template = source.at("volumeClaimTemplate");
    if template.is_set() {
        check_metadata(&template.at("metadata"), errors);
        claim::check_spec(&template.at("spec"), errors);
    } else {
        errors.required(&template, "");
    }
    let name = volume.at("name");
    if let SpecOwner::Pod(pod) = owner
        && !pod.is_empty()
        && !name.is_empty()
    {
        let claim = format!("{pod}-{}", name.text());
        let rule = names::NameRule::Subdomain;
        for detail in names::check_name(rule, &claim) {
            errors.invalid(&name, &format!("PVC name {claim:?}: {detail}"));
        }
    }
}

/// Checks that the metadata of a claim's template has labels and annotations only.
fn check_metadata(metadata: &FieldPath<'_>, errors: &mut Errors) {
    check::annotations(&metadata.at("annotations"), errors);
    check::labels(&metadata.at("labels"), errors);
    let other = names::METADATA
        .iter()
        .filter(|field| !matches!(**field, "annotations" | "labels"));
    for field in other.map(|field| metadata.at(field)) {
        if !field.is_empty() {
            errors.forbidden(&field, "cannot be set");
        }
    }
}

fn check_image(source: &FieldPath<'_>, owner: SpecOwner<'_>, errors: &mut Errors) {
    if owner != SpecOwner::Template {
        need(source, &["reference"], errors);
    }
    let policies = &["Always", "IfNotPresent", "Never"];
    check::required_one_of(&source.at("pullPolicy"), policies, errors);
}

/// Checks a file of the downward API (upstream: `validateDownwardAPIVolumeFile`).
fn check_file(file: &FieldPath<'_>, errors: &mut Errors) {
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
fn check_projections(volume: &FieldPath<'_>, errors: &mut Errors) {
    let mut paths: HashSet<String> = HashSet::new();
    let mut once = |path: &str, shown: &str, errors: &mut Errors| {
        if !paths.insert(path.to_owned()) {
            errors.invalid_as(volume, &Value::from(shown), "conflicting duplicate paths");
        }
    };
    for source in volume.at("sources").items() {
        let mut kinds = 0;
        for kind in ["secret", "configMap"] {
            let field = source.at(kind);
            if !field.is_set() {
                continue;
            }
            kinds += 1;
            need(&field, &["name"], errors);
            for item in field.at("items").items() {
                check_item(&item, errors);
                if !item.at("path").is_empty() {
                    once(item.at("path").text(), field.at("name").text(), errors);
                }
            }
        }
        let downward = source.at("downwardAPI");
        if downward.is_set() {
            kinds += 1;
            for file in downward.at("items").items() {
                check_file(&FieldPath::new(downward.path(), file.value()), errors);
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

fn check_bundle(bundle: &FieldPath<'_>, errors: &mut Errors) {
    let (name, signer) = (bundle.at("name"), bundle.at("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            errors.invalid(bundle, "only one of name and signerName may be used");
        }
        (true, false) => {
            if name.is_empty() {
                errors.required(&name, "must be a valid object name");
            } else {
                check::subdomain(&name, errors);
            }
            if bundle.at("labelSelector").is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&bundle.at("labelSelector"), detail);
            }
        }
        (false, true) => {
            if signer.is_empty() {
                errors.required(&signer, "must be a valid signer name");
            } else {
                reference::check_signer(&signer, errors);
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
