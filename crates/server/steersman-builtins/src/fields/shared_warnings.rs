//! Machine: warnings that several kinds share: deprecated names, addresses in odd forms, fractions
//! of bytes.

use serde_json::Value;
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use super::address;
use super::field_path::FieldPath;

/// Deprecated labels of nodes, each with its newer name (upstream: `pkg/api/node/util.go`).
const OLD_LABELS: [(&str, &str); 8] = [
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "beta.kubernetes.io/arch",
        "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
    ),
    (
        "beta.kubernetes.io/instance-type",
        "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
    ),
    (
        "beta.kubernetes.io/os",
        "deprecated since v1.14; use \"kubernetes.io/os\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
    ),
    (
        "node-role.kubernetes.io/master",
        "use \"node-role.kubernetes.io/control-plane\" instead",
    ),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
];

/// The annotation that named the storage class before the field existed.
pub(crate) const CLASS_NOTE: &str = "volume.beta.kubernetes.io/storage-class";

/// Deprecated or removed volume sources: the field, its name in messages, and the warning.
pub(crate) const OLD_SOURCES: &[(&str, &str, &str)] = &[
    (
        "photonPersistentDisk",
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    (
        "scaleIO",
        "scaleIO",
        "deprecated in v1.16, non-functional in v1.22+",
    ),
    (
        "storageos",
        "storageOS",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "glusterfs",
        "glusterfs",
        "deprecated in v1.25, non-functional in v1.26+",
    ),
    (
        "cephfs",
        "cephfs",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
    (
        "rbd",
        "rbd",
        "deprecated in v1.28, non-functional in v1.31+",
    ),
];

/// Deprecated volume sources that only the authors of Pods are warned of.
pub(crate) const OLD_SOURCES_OF_PODS: &[(&str, &str, &str)] = &[
    (
        "gitRepo",
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    (
        "flocker",
        "flocker",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
    (
        "quobyte",
        "quobyte",
        "deprecated in v1.22, non-functional in v1.25+",
    ),
];

/// Returns the warning for a deprecated label of nodes.
pub(crate) fn old_label(name: &str) -> Option<&'static str> {
    let found = OLD_LABELS.iter().find(|(old, _)| *old == name);
    found.map(|(_, why)| *why)
}

/// Adds the warning for a deprecated volume source.
pub(crate) fn of_sources(
    volume: &FieldPath<'_>,
    sources: &[(&str, &str, &str)],
    warnings: &mut Vec<String>,
) {
    for (field, shown, why) in sources {
        if volume.at(field).is_set() {
            warnings.push(format!("{}: {why}", volume.named(shown, None).path()));
        }
    }
}

/// Returns the warning for a deprecated label as the key of a node selector.
pub(crate) fn of_key(at: &FieldPath<'_>, key: &str) -> Option<String> {
    old_label(key).map(|why| format!("{}: {key} is {why}", at.path()))
}

/// Adds warnings for deprecated labels in one term of a node selector. With `values`, also warns of
/// values that no label can have, because validation lets them pass.
pub(crate) fn of_node_term(term: &FieldPath<'_>, values: bool, warnings: &mut Vec<String>) {
    for one in term.at("matchExpressions").items() {
        let key = one.at("key");
        warnings.extend(of_key(&key, key.text()));
        for value in one.at("values").items().filter(|_| values) {
            for wrong in names::check_label_value(value.text()) {
                let (path, text) = (value.path(), value.text());
                warnings.push(format!("{path}: {text} is invalid, {wrong}"));
            }
        }
    }
}

/// Warns of the annotation that a field has replaced, in the metadata of the object.
pub(crate) fn of_class_note(root: &FieldPath<'_>, warnings: &mut Vec<String>) {
    let note = root.down("metadata.annotations").key(CLASS_NOTE);
    if note.is_set() {
        warnings.push(format!(
            "{}: deprecated since v1.8; use \"storageClassName\" attribute instead",
            note.path()
        ));
    }
}

/// Warns of a quantity that is not a whole number of bytes.
pub(crate) fn of_bytes(at: &FieldPath<'_>, warnings: &mut Vec<String>) {
    if Quantity::parse(at.text()).is_ok_and(|amount| !amount.is_whole()) {
        warnings.push(format!(
            "{}: fractional byte value {} is invalid, must be an integer",
            at.path(),
            Value::from(at.text())
        ));
    }
}

/// Warns of an address in a form that is not canonical (upstream: `GetWarningsForIP`).
pub(crate) fn of_ip(at: &FieldPath<'_>, warnings: &mut Vec<String>) {
    let (path, text) = (at.path(), Value::from(at.text()));
    match address::form(at.text()) {
        address::AddressForm::Unusual(usual) => warnings.push(format!(
            "{path}: non-standard IP address {text} will be considered invalid in a future Kubernetes release: use \"{usual}\""
        )),
        address::AddressForm::Long(short) => warnings.push(format!(
            "{path}: IPv6 address {text} should be in RFC 5952 canonical format (\"{short}\")"
        )),
        address::AddressForm::Usual => {}
    }
}

/// Warns of a network in a form that is not canonical (upstream: `GetWarningsForCIDR`).
pub(crate) fn of_network(at: &FieldPath<'_>, warnings: &mut Vec<String>) {
    let (path, text) = (at.path(), Value::from(at.text()));
    let Some(network) = address::Network::parse(at.text()) else {
        return;
    };
    let usual = network.usual();
    if let Some(single) = network.single() {
        warnings.push(format!(
            "{path}: CIDR value {text} is ambiguous in this context (should be \"{usual}\" or \"{single}\"?)"
        ));
    }
    match address::network_form(at.text()) {
        address::AddressForm::Unusual(_) => warnings.push(format!(
            "{path}: non-standard CIDR value {text} will be considered invalid in a future Kubernetes release: use \"{usual}\""
        )),
        address::AddressForm::Long(short) if network.single().is_none() => warnings.push(format!(
            "{path}: IPv6 CIDR value {text} should be in RFC 5952 canonical format (\"{short}\")"
        )),
        address::AddressForm::Long(_) | address::AddressForm::Usual => {}
    }
}
