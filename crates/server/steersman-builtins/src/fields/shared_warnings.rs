//! Machine: warnings that several kinds share: deprecated names, addresses in odd forms, fractions of bytes.

use serde_json::Value;
use steersman_apimachinery::names;
use steersman_apimachinery::quantity::Quantity;

use super::address::{self, AddressForm, Network};
use super::field_path::FieldPath;

/// Labels of nodes that have newer names: the label, the version since which it is deprecated, and the newer name.
pub(crate) const RENAMED_LABELS: [(&str, &str, &str); 5] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "v1.17",
        "topology.kubernetes.io/region",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
];

/// The annotation that named the storage class before the field existed.
pub(crate) const CLASS_NOTE: &str = "volume.beta.kubernetes.io/storage-class";

/// Deprecated or removed volume sources, and the warning about each.
pub(crate) const OLD_SOURCES: &[(&str, &str)] = &[
    (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Deprecated volume sources that only the authors of Pods are warned of.
pub(crate) const OLD_SOURCES_OF_PODS: &[(&str, &str)] = &[
    (
        "gitRepo",
        "deprecated in v1.11, and disabled by default in v1.33+",
    ),
    ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
];

/// Returns why a label of nodes is deprecated (upstream: `pkg/api/node/util.go`); `None` for another label.
pub(crate) fn old_label(name: &str) -> Option<String> {
    Some(match name {
        "app.kubernetes.io/created-by" => "deprecated since v1.9".to_owned(),
        "node-role.kubernetes.io/master" => {
            "use \"node-role.kubernetes.io/control-plane\" instead".to_owned()
        }
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead".to_owned()
        }
        _ => {
            let (_, since, newer) = RENAMED_LABELS.iter().find(|(old, ..)| *old == name)?;
            format!("deprecated since {since}; use \"{newer}\" instead")
        }
    })
}

pub(crate) fn of_sources(volume: &FieldPath<'_>, sources: &[(&str, &str)]) {
    for (field, why) in sources {
        let shown = match *field {
            "storageos" => "storageOS",
            field => field,
        };
        if volume.at(field).is_set() {
            volume.named(shown, None).warn(why);
        }
    }
}

/// Warns of a deprecated label as the key of a node selector.
pub(crate) fn of_key(at: &FieldPath<'_>, key: &str) {
    if let Some(why) = old_label(key) {
        at.warn(&format!("{key} is {why}"));
    }
}

/// Warns of deprecated labels in a term and, with `values`, of values that no label can have.
pub(crate) fn of_node_term(term: &FieldPath<'_>, values: bool) {
    for one in term.at("matchExpressions").items() {
        of_key(&one.at("key"), one.at("key").text());
        for value in one.at("values").items().filter(|_| values) {
            for wrong in names::check_label_value(value.text()) {
                value.warn(&format!("{} is invalid, {wrong}", value.text()));
            }
        }
    }
}

/// Warns of the annotation that a field has replaced, in the metadata of the object.
pub(crate) fn of_class_note(root: &FieldPath<'_>) {
    let note = root.down("metadata.annotations").key(CLASS_NOTE);
    note.if_set(|note| {
        note.warn("deprecated since v1.8; use \"storageClassName\" attribute instead");
    });
}

/// Warns of a quantity that is not a whole number of bytes.
pub(crate) fn of_bytes(at: &FieldPath<'_>) {
    if Quantity::parse(at.text()).is_ok_and(|amount| !amount.is_whole()) {
        let text = Value::from(at.text());
        at.warn(&format!(
            "fractional byte value {text} is invalid, must be an integer"
        ));
    }
}

/// Warns of an address in a form that is not canonical (upstream: `GetWarningsForIP`).
pub(crate) fn of_ip(at: &FieldPath<'_>) {
    let text = Value::from(at.text());
    match address::form(at.text()) {
        AddressForm::Unusual(usual) => at.warn(&format!(
            "non-standard IP address {text} will be considered invalid in a future Kubernetes release: use \"{usual}\""
        )),
        AddressForm::Long(short) => at.warn(&format!(
            "IPv6 address {text} should be in RFC 5952 canonical format (\"{short}\")"
        )),
        AddressForm::Usual => {}
    }
}

/// Warns of a network in a form that is not canonical (upstream: `GetWarningsForCIDR`).
pub(crate) fn of_network(at: &FieldPath<'_>) {
    let text = Value::from(at.text());
    let Some(network) = Network::parse(at.text()) else {
        return;
    };
    let usual = network.usual();
    if let Some(single) = network.single() {
        at.warn(&format!(
            "CIDR value {text} is ambiguous in this context (should be \"{usual}\" or \"{single}\"?)"
        ));
    }
    match address::network_form(at.text()) {
        AddressForm::Unusual(_) => at.warn(&format!(
            "non-standard CIDR value {text} will be considered invalid in a future Kubernetes release: use \"{usual}\""
        )),
        AddressForm::Long(short) if network.single().is_none() => at.warn(&format!(
            "IPv6 CIDR value {text} should be in RFC 5952 canonical format (\"{short}\")"
        )),
        AddressForm::Long(_) | AddressForm::Usual => {}
    }
}
