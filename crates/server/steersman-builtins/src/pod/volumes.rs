//! Machine: checks the volumes of a Pod: each has one source, and each source its required fields.

use std::collections::{HashMap, HashSet};

use steersman_apimachinery::names::{self, NameRule};
use steersman_apimachinery::order;
use steersman_apimachinery::quantity::Quantity;

use crate::fields::{FieldPath, check, reference, selector};
use crate::storage::claim;
use crate::storage::sources::{self, Holder};

use super::{SpecOwner, env};

const MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";

/// The volume sources, in the order of upstream's checks.
const SOURCES: &[&str] = &[
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret",
    "nfs", "iscsi", "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs",
    "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile", "vsphereVolume",
    "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO",
    "csi", "ephemeral", "image",
];

/// Checks volumes, and returns the valid ones by name (upstream: `ValidateVolumes`).
pub(super) fn check<'a>(
    volumes: &FieldPath<'a>,
    owner: SpecOwner<'_>,
) -> HashMap<&'a str, FieldPath<'a>> {
    let mut valid: HashMap<&str, FieldPath<'_>> = HashMap::new();
    for volume in volumes.items() {
        let before = volume.error_count();
        let name = volume.at("name");
        check_sources(&volume, owner);
        check::required(&name, check::label);
        if valid.contains_key(name.text()) {
            name.duplicate();
        }
        if volume.error_count() == before {
            valid.insert(name.text(), volume);
        }
    }
    if let SpecOwner::Pod(pod) = owner {
        check_claims(volumes, pod);
    }
    valid
}

/// Checks that no volume names the claim that is created for an ephemeral volume of the Pod.
fn check_claims(volumes: &FieldPath<'_>, pod: &str) {
    let made = volumes.items().filter(|one| one.at("ephemeral").is_set());
    let made = made.map(|volume| format!("{pod}-{}", volume.at("name").text()));
    let made: HashSet<String> = made.collect();
    for volume in volumes.items() {
        let claim = volume.down("persistentVolumeClaim.claimName");
        if made.contains(claim.text()) {
            claim.invalid("must not reference a PVC that gets created for an ephemeral volume");
        }
    }
}

fn check_sources(volume: &FieldPath<'_>, owner: SpecOwner<'_>) {
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
            let other = volume.named(shown, None);
            other.forbidden("may not specify more than 1 volume type");
            continue;
        }
        found = true;
        check_source(kind, volume, &source, owner);
    }
    if !found {
        volume.required("must specify a volume type");
    }
}

fn mode(at: &FieldPath<'_>) {
    if at.number().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        at.invalid(MODE);
    }
}

fn check_source(kind: &str, volume: &FieldPath<'_>, source: &FieldPath<'_>, owner: SpecOwner<'_>) {
    match kind {
        "emptyDir" => {
            let limit = source.at("sizeLimit");
            if Quantity::parse(limit.text()).is_ok_and(|limit| limit.sign() < 0) {
                limit.forbidden("SizeLimit field must be a valid resource quantity");
            }
        }
        "gitRepo" => {
            source.need_all(&["repository"]);
            check::descending_path(&source.at("directory"));
        }
        "gcePersistentDisk" => {
            // As upstream, errors name the volume `persistentDisk`.
            let shown = volume.named("persistentDisk", Some(source.value()));
            sources::check(kind, &shown, Holder::Pod);
        }
        "persistentVolumeClaim" => source.at("claimName").need(""),
        "secret" => check_keys(source, "secretName"),
        "configMap" => check_keys(source, "name"),
        "downwardAPI" => {
            mode(&source.at("defaultMode"));
            for file in source.at("items").items() {
                // As upstream, errors name the source, not the file.
                check_file(&source.with(file.value()));
            }
        }
        "projected" => {
            mode(&source.at("defaultMode"));
            check_projections(source);
        }
        "csi" => check_csi(source),
        "ephemeral" => check_ephemeral(volume, source, owner),
        "image" => check_image(source, owner),
        _ => sources::check(kind, source, Holder::Pod),
    }
    let name = volume.at("name");
    sources::check_initiator(source, name.len(), &name);
}

/// Checks files with the values of keys of a ConfigMap or a Secret.
fn check_keys(source: &FieldPath<'_>, name: &'static str) {
    source.at(name).need("");
    mode(&source.at("defaultMode"));
    source.at("items").each(check_item);
}

fn check_item(item: &FieldPath<'_>) {
    item.need_all(&["key", "path"]);
    check::free_path(&item.at("path"));
    mode(&item.at("mode"));
}

fn check_csi(source: &FieldPath<'_>) {
    check::csi_driver(&source.at("driver"));
    source.at("nodePublishSecretRef").if_set(|secret| {
        check::required(&secret.at("name"), |name| {
            check::subdomain(&source.named("name", Some(name.value())));
        });
    });
}

fn check_ephemeral(volume: &FieldPath<'_>, source: &FieldPath<'_>, owner: SpecOwner<'_>) {
    let [template, name] = [source.at("volumeClaimTemplate"), volume.at("name")];
    if template.need_set("") {
        check_metadata(&template.at("metadata"));
        claim::check_spec(&template.at("spec"));
    }
    if let SpecOwner::Pod(pod) = owner
        && !pod.is_empty()
        && !name.is_empty()
    {
        let claim = format!("{pod}-{}", name.text());
        for detail in names::check_name(NameRule::Subdomain, &claim) {
            name.invalid(&format!("PVC name {claim:?}: {detail}"));
        }
    }
}

/// Checks that the metadata of a claim's template has labels and annotations only.
fn check_metadata(metadata: &FieldPath<'_>) {
    check::annotations(&metadata.at("annotations"));
    check::labels(&metadata.at("labels"));
    for field in order::METADATA {
        if !matches!(*field, "annotations" | "labels") {
            metadata.at(field).deny_filled("cannot be set");
        }
    }
}

fn check_image(source: &FieldPath<'_>, owner: SpecOwner<'_>) {
    if owner != SpecOwner::Template {
        source.at("reference").need("");
    }
    let policies = &["Always", "IfNotPresent", "Never"];
    check::required_one_of(&source.at("pullPolicy"), policies);
}

/// Checks a file of the downward API (upstream: `validateDownwardAPIVolumeFile`).
fn check_file(file: &FieldPath<'_>) {
    file.at("path").need("");
    check::free_path(&file.at("path"));
    let (field, resource) = (file.at("fieldRef"), file.at("resourceFieldRef"));
    if field.is_set() {
        env::check_field(&field, env::FIELDS_OF_FILES);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            file.invalid_as("resource", detail);
        }
    } else if resource.is_set() {
        env::check_resource(&resource, true);
    } else {
        file.required("one of fieldRef and resourceFieldRef is required");
    }
    mode(&file.at("mode"));
}

/// The sources of a projected volume of which each element has one.
const PROJECTED: [&str; 5] = [
    "secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle",
];

/// Checks the sources of a projected volume (upstream: `validateProjectionSources`).
fn check_projections(volume: &FieldPath<'_>) {
    let mut paths: HashSet<String> = HashSet::new();
    let mut once = |path: &str, shown: &str| {
        if !paths.insert(path.to_owned()) {
            volume.invalid_as(shown, "conflicting duplicate paths");
        }
    };
    for source in volume.at("sources").items() {
        for field in source.parts(["secret", "configMap"]) {
            field.if_set(|field| field.at("name").need(""));
            for item in field.at("items").items() {
                check_item(&item);
                let path = item.at("path");
                path.if_filled(|path| once(path.text(), field.at("name").text()));
            }
        }
        let downward = source.at("downwardAPI");
        for file in downward.at("items").items() {
            check_file(&downward.with(file.value()));
            file.at("path")
                .if_filled(|path| once(path.text(), path.text()));
        }
        let token = source.at("serviceAccountToken");
        if token.is_set() {
            let seconds = token.at("expirationSeconds");
            seconds.at_least(600, "may not specify a duration less than 10 minutes");
            let detail = "may not specify a duration larger than 2^32 seconds";
            seconds.at_most(1 << 32, detail);
            let path = volume.named("path", Some(token.at("path").value()));
            check::required(&path, check::free_path);
        }
        source.at("clusterTrustBundle").if_set(|bundle| {
            check_bundle(bundle);
            let path = bundle.at("path").text();
            once(path, path);
        });
        let kinds = source.parts(PROJECTED);
        if kinds.iter().filter(|kind| kind.is_set()).count() > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

fn check_bundle(bundle: &FieldPath<'_>) {
    let [name, signer, labels] = bundle.parts(["name", "signerName", "labelSelector"]);
    match (name.is_set(), signer.is_set()) {
        (true, true) => bundle.invalid("only one of name and signerName may be used"),
        (true, false) => {
            name.need("must be a valid object name");
            name.if_filled(check::subdomain);
            labels.if_set(|labels| {
                labels.invalid("labelSelector must be unset if name is specified")
            });
        }
        (false, true) => {
            signer.need("must be a valid signer name");
            signer.if_filled(reference::check_signer);
            selector::check(&labels);
        }
        (false, false) => bundle.required("either name or signerName must be specified"),
    }
    bundle.at("path").need("");
    check::free_path(&bundle.at("path"));
}
