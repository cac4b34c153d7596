//! Machine: checks the volume sources that Pods and PersistentVolumes share.

use std::sync::LazyLock;

use regex::Regex;
use steersman_apimachinery::constant_pattern::{ConstantPattern, is_match};

use crate::fields::{FieldPath, check};

/// The kind that has the volume source. The fields are the same, but references to secrets differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Pod,
    Volume,
}

/// Required fields of each source. They are checked before all other fields.
const NEEDS: &[(&str, &[&str])] = &[
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("azureFile", &["secretName", "shareName"]),
    ("cephfs", &["monitors"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("gcePersistentDisk", &["pdName"]),
    ("glusterfs", &["endpoints", "path"]),
    ("iscsi", &["targetPortal"]),
    ("nfs", &["server", "path"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("rbd", &["monitors", "image"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &["volumeName"]),
    ("vsphereVolume", &["volumePath"]),
];

const HOST_TYPES: &[&str] = &[
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate",
    "Socket",
];

/// Checks one source by its kind (upstream: the `validate…VolumeSource` of each).
pub(crate) fn check(kind: &str, source: &FieldPath<'_>, holder: Holder) {
    if let Some((_, fields)) = NEEDS.iter().find(|(name, _)| *name == kind) {
        source.need_all(fields);
    }
    match kind {
        "hostPath" => check_host_path(source),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = source.at("partition");
            if !(0..=255).contains(&partition.int()) {
                partition.invalid("must be between 1 and 255, inclusive");
            }
        }
        "glusterfs" => source.at("endpointsNamespace").if_set(check_endpoints),
        "nfs" if !source.at("path").text().starts_with('/') => {
            source.at("path").invalid_text("must be an absolute path");
        }
        "iscsi" => check_iscsi(source, holder),
        "flocker" => check_flocker(source),
        "cinder" => check_secret(source, holder),
        "quobyte" => check_quobyte(source),
        "fc" => check_fc(source),
        "flexVolume" => check_flex(source),
        "azureFile" => {
            let namespace = source.at("secretNamespace");
            namespace.if_set(|namespace| namespace.need(""));
        }
        "azureDisk" => check_azure_disk(source),
        "storageos" => {
            for field in source.parts(["volumeName", "volumeNamespace"]) {
                field.if_filled(check::label);
            }
            check_secret(source, holder);
        }
        _ => {}
    }
}

/// Checks the reference to a source's secret. In a PersistentVolume the reference has a namespace.
fn check_secret(source: &FieldPath<'_>, holder: Holder) {
    source.at("secretRef").if_set(|secret| match holder {
        Holder::Pod => secret.need_all(&["name"]),
        Holder::Volume => secret.need_all(&["name", "namespace"]),
    });
}

fn check_host_path(source: &FieldPath<'_>) {
    check::required(&source.at("path"), |path| {
        check::no_backsteps(path);
        check::optional(&source.at("type"), HOST_TYPES);
    });
}

fn check_endpoints(namespace: &FieldPath<'_>) {
    if namespace.is_empty() {
        namespace.invalid("if the endpointnamespace is set, it must be a valid namespace name");
    } else {
        check::label(namespace);
    }
}

fn check_iscsi(source: &FieldPath<'_>, holder: Holder) {
    let unknown = match holder {
        Holder::Pod => "must be valid format starting with iqn, eui, or naa",
        Holder::Volume => "must be valid format",
    };
    let name = |at: &FieldPath<'_>| match is_iscsi_name(at.text()) {
        Some(true) => {}
        Some(false) => at.invalid("must be valid format"),
        None => at.invalid(unknown),
    };
    check::required(&source.at("iqn"), name);
    check::in_range(&source.at("lun"), 0, 255);
    let chap = source.at("chapAuthDiscovery").flag() || source.at("chapAuthSession").flag();
    let secret = source.at("secretRef");
    if chap && !secret.is_set() {
        secret.required("");
    }
    if secret.is_set() && holder == Holder::Volume {
        secret.at("name").need("");
    }
    let initiator = source.named("initiatorname", source.value().get("initiatorName"));
    initiator.if_set(name);
}

/// Checks the length of a volume's name and its portal beside an initiator. `shown` is the field of the error.
pub(crate) fn check_initiator(source: &FieldPath<'_>, volume: usize, shown: &FieldPath<'_>) {
    let length = volume + 1 + source.at("targetPortal").len();
    if source.at("initiatorName").is_set() && length > 64 {
        shown.invalid_text("Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.");
    }
}

static IQN: ConstantPattern = LazyLock::new(|| {
    Regex::new(r"iqn\.[0-9]{4}-[0-9]{2}\.[a-zA-Z0-9.-]+:[^,;*&$|\t\n\f\r ]+$").ok()
});
static EUI: ConstantPattern = LazyLock::new(|| Regex::new("(?s)^eui.[a-zA-Z0-9]{16}$").ok());
static NAA: ConstantPattern = LazyLock::new(|| Regex::new("(?s)^naa.[a-zA-Z0-9]{32}$").ok());

/// Returns whether an iSCSI name is well formed, or `None` for a name with an unknown prefix.
fn is_iscsi_name(name: &str) -> Option<bool> {
    let known = [("iqn", &IQN), ("eui", &EUI), ("naa", &NAA)];
    let (_, pattern) = known
        .into_iter()
        .find(|(prefix, _)| name.starts_with(prefix))?;
    Some(is_match(pattern, name))
}

fn check_flocker(source: &FieldPath<'_>) {
    let (name, uuid) = (source.at("datasetName"), source.at("datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        source.required("one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        source.invalid_as("resource", detail);
    }
    if name.text().contains('/') {
        name.invalid("must not contain '/'");
    }
}

fn check_quobyte(source: &FieldPath<'_>) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    if registry.is_empty() {
        registry.required(PAIRS);
    } else if tenant.len() >= 65 {
        tenant.required("must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_pair(pair)) {
            registry.invalid(PAIRS);
        }
    }
    source.at("volume").need("");
}

/// Returns whether a text is a host and a port. A host with colons stands in brackets.
fn is_pair(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host_is_plain = bare.is_some() || !host.contains(':');
    let inner = bare.unwrap_or(host);
    host_is_plain && !inner.contains(['[', ']']) && !port.contains(['[', ']'])
}

fn check_fc(source: &FieldPath<'_>) {
    let [targets, ids, lun] = source.parts(["targetWWNs", "wwids", "lun"]);
    if targets.is_empty() && ids.is_empty() {
        targets.required("must specify either targetWWNs or wwids, but not both");
    }
    if !targets.is_empty() && !ids.is_empty() {
        targets.invalid("targetWWNs and wwids can not be specified simultaneously");
    }
    if !targets.is_empty() && lun.need_set("lun is required if targetWWNs is specified") {
        check::in_range(&lun, 0, 255);
    }
}

fn check_flex(source: &FieldPath<'_>) {
    for (key, option) in source.at("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved");
        }
    }
}

fn check_azure_disk(source: &FieldPath<'_>) {
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let [caching, kind, uri] = source.parts(["cachingMode", "kind", "diskURI"]);
    check::optional(&caching, &["None", "ReadOnly", "ReadWrite"]);
    if !kind.is_set() {
        return;
    }
    check::one_of(&kind, &["Dedicated", "Managed", "Shared"]);
    let (start, shown) = match kind.text() {
        "Managed" => ("/subscriptions/", MANAGED),
        _ => ("https://", BLOB),
    };
    if !uri.text().starts_with(start) {
        uri.not_supported(&[shown]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: `TestValidateVolumes` and `validateISCSIVolumeSource`.
    #[test]
    fn iscsi_names_and_host_port_pairs_are_validated() {
        for (name, valid) in [
            ("iqn.2015-02.example.com:test", Some(true)),
            ("iqn.2015-02.example.com:test:name", Some(true)),
            ("iqn.15-02.example.com:test", Some(false)),
            ("iqn.2015-02.example.com", Some(false)),
            ("iqn.2015-02.example.com:te;st", Some(false)),
            ("eui.0123456789ABCDEF", Some(true)),
            ("eui.0123456789ABCDEFGHIJ", Some(false)),
            ("naa.62004567BA64678D0123456789ABCDEF", Some(true)),
            ("naa.62004567BA64678D", Some(false)),
            ("iscsi", None),
            ("é", None),
        ] {
            assert_eq!(is_iscsi_name(name), valid, "{name}");
        }
        for (text, valid) in [
            ("a:1", true),
            ("[::1]:1", true),
            ("::1:1", false),
            ("a", false),
            ("[a:1", false),
            ("a]:1", false),
        ] {
            assert_eq!(is_pair(text), valid, "{text}");
        }
    }
}
