//! Machine: checks the volume sources that Pods and PersistentVolumes share.

use serde_json::Value;

use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};

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
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
];

/// Adds an error for each of these fields that is empty.
pub(crate) fn need(source: &FieldPath<'_>, fields: &[&str], errors: &mut Errors) {
    for field in fields {
        if source.at(field).is_empty() {
            errors.required(&source.at(field), "");
        }
    }
}

/// Checks one source by its kind (upstream: the `validate…VolumeSource` of each).
pub(crate) fn check(kind: &str, source: &FieldPath<'_>, holder: Holder, errors: &mut Errors) {
    if let Some((_, fields)) = NEEDS.iter().find(|(name, _)| *name == kind) {
        need(source, fields, errors);
    }
    match kind {
        "hostPath" => check_host_path(source, errors),
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            let partition = source.at("partition");
            if !(0..=255).contains(&partition.int()) {
                errors.invalid(&partition, "must be between 1 and 255, inclusive");
            }
        }
        "glusterfs" => check_endpoints(source, errors),
        "nfs" if !source.at("path").text().starts_with('/') => {
            errors.invalid_text(&source.at("path"), "must be an absolute path");
        }
        "iscsi" => check_iscsi(source, holder, errors),
        "flocker" => check_flocker(source, errors),
        "cinder" => check_secret(source, holder, errors),
        "quobyte" => check_quobyte(source, errors),
        "fc" => check_fc(source, errors),
        "flexVolume" => check_flex(source, errors),
        "azureFile" => {
            let namespace = source.at("secretNamespace");
            if namespace.is_set() && namespace.is_empty() {
                errors.required(&namespace, "");
            }
        }
        "azureDisk" => check_azure_disk(source, errors),
        "storageos" => {
            for field in ["volumeName", "volumeNamespace"] {
                if !source.at(field).is_empty() {
                    check::label(&source.at(field), errors);
                }
            }
            check_secret(source, holder, errors);
        }
        _ => {}
    }
}

/// Checks the reference to a source's secret. In a PersistentVolume the reference has a namespace.
fn check_secret(source: &FieldPath<'_>, holder: Holder, errors: &mut Errors) {
    let secret = source.at("secretRef");
    if secret.is_set() {
        let both: &[&str] = match holder {
            Holder::Pod => &["name"],
            Holder::Volume => &["name", "namespace"],
        };
        need(&secret, both, errors);
    }
}

fn check_host_path(source: &FieldPath<'_>, errors: &mut Errors) {
    let path = source.at("path");
    if path.is_empty() {
        errors.required(&path, "");
        return;
    }
    check::no_backsteps(&path, path.text(), errors);
    if source.at("type").is_set() {
        check::one_of(&source.at("type"), HOST_TYPES, errors);
    }
}

fn check_endpoints(source: &FieldPath<'_>, errors: &mut Errors) {
    let namespace = source.at("endpointsNamespace");
    if namespace.is_set() && namespace.is_empty() {
        let detail = "if the endpointnamespace is set, it must be a valid namespace name";
        errors.invalid(&namespace, detail);
    } else if namespace.is_set() {
        check::label(&namespace, errors);
    }
}

fn check_iscsi(source: &FieldPath<'_>, holder: Holder, errors: &mut Errors) {
    let unknown = match holder {
        Holder::Pod => "must be valid format starting with iqn, eui, or naa",
        Holder::Volume => "must be valid format",
    };
    let name = |at: &FieldPath<'_>, errors: &mut Errors| {
        if let Some(known) = is_iscsi_name(at.text()) {
            if !known {
                errors.invalid(at, "must be valid format");
            }
        } else {
            errors.invalid(at, unknown);
        }
    };
    let iqn = source.at("iqn");
    if iqn.is_empty() {
        errors.required(&iqn, "");
    } else {
        name(&iqn, errors);
    }
    check::in_range(&source.at("lun"), 0, 255, errors);
    let chap = source.at("chapAuthDiscovery").flag() || source.at("chapAuthSession").flag();
    let secret = source.at("secretRef");
    if chap && !secret.is_set() {
        errors.required(&secret, "");
    }
    if secret.is_set() && holder == Holder::Volume {
        need(&secret, &["name"], errors);
    }
    let initiator = source.at("initiatorName");
    if initiator.is_set() {
        let named = source.named("initiatorname", Some(initiator.value()));
        name(&named, errors);
    }
}

/// Returns whether an iSCSI name is well formed, or `None` for a name with an unknown prefix.
fn is_iscsi_name(name: &str) -> Option<bool> {
    let counted = |count: usize| {
        let mut rest = name.chars().skip(3);
        rest.next().is_some()
            && rest.clone().count() == count
            && rest.all(|c| c.is_ascii_alphanumeric())
    };
    match name.get(..3)? {
        "iqn" => Some(name.match_indices("iqn.").any(|(at, dotted)| {
            let after = name.get(at + dotted.len()..).unwrap_or_default();
            is_qualified(after)
        })),
        "eui" => Some(counted(16)),
        "naa" => Some(counted(32)),
        _ => None,
    }
}

/// Returns whether the text after `iqn.` is a month, a reversed domain and a name.
fn is_qualified(text: &str) -> bool {
    let (Some(month), Some(rest)) = (text.get(..8), text.get(8..)) else {
        return false;
    };
    let dated = month.bytes().enumerate().all(|(index, byte)| match index {
        4 => byte == b'-',
        7 => byte == b'.',
        _ => byte.is_ascii_digit(),
    });
    let Some((domain, own)) = rest.split_once(':') else {
        return false;
    };
    let domain_is_plain = domain
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    let odd = |c: char| matches!(c, ',' | ';' | '*' | '&' | '$' | '|') || c.is_ascii_whitespace();
    dated && !domain.is_empty() && domain_is_plain && !own.is_empty() && !own.contains(odd)
}

fn check_flocker(source: &FieldPath<'_>, errors: &mut Errors) {
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

fn check_quobyte(source: &FieldPath<'_>, errors: &mut Errors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at("registry"), source.at("tenant"));
    if registry.is_empty() {
        errors.required(&registry, PAIRS);
    } else if tenant.len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&tenant, detail);
    } else {
        for _ in registry.text().split(',').filter(|pair| !is_pair(pair)) {
            errors.invalid(&registry, PAIRS);
        }
    }
    need(source, &["volume"], errors);
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

fn check_fc(source: &FieldPath<'_>, errors: &mut Errors) {
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

fn check_flex(source: &FieldPath<'_>, errors: &mut Errors) {
    for (key, option) in source.at("options").entries() {
        let domain = key.split_once('/').map_or(key, |(domain, _)| domain);
        let domain = format!(".{}", domain.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid_as(&option, &Value::from(key), detail);
        }
    }
}

fn check_azure_disk(source: &FieldPath<'_>, errors: &mut Errors) {
    const MANAGED: &str = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str =
        "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let (caching, kind, uri) = (
        source.at("cachingMode"),
        source.at("kind"),
        source.at("diskURI"),
    );
    if caching.is_set() {
        check::one_of(&caching, &["None", "ReadOnly", "ReadWrite"], errors);
    }
    if !kind.is_set() {
        return;
    }
    check::one_of(&kind, &["Dedicated", "Managed", "Shared"], errors);
    let (start, shown) = match kind.text() {
        "Managed" => ("/subscriptions/", MANAGED),
        _ => ("https://", BLOB),
    };
    if !uri.text().starts_with(start) {
        errors.not_supported(&uri, &[shown]);
    }
}

/// Checks the reference to a secret of a PersistentVolume's driver (upstream:
/// `validatePVSecretReference`).
pub(crate) fn check_driver_secret(secret: &FieldPath<'_>, errors: &mut Errors) {
    if !secret.is_set() {
        return;
    }
    let (name, namespace) = (secret.at("name"), secret.at("namespace"));
    check::required(&name, check::subdomain, errors);
    check::required(&namespace, check::label, errors);
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
