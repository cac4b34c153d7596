//! Machine: what the author of a Pod or a template is warned of though it is taken (upstream:
//! `pkg/api/pod/warnings.go`).

use std::collections::HashMap;

use serde_json::Value;

use crate::schema::kinds::place::Place;
use crate::schema::quantity::Quantity;

/// Labels of nodes that have newer names: the old name, the version of its end, and what to use.
const OLD_LABELS: [(&str, &str, &str); 6] = [
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
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
    (
        "beta.kubernetes.io/instance-type",
        "v1.17",
        "node.kubernetes.io/instance-type",
    ),
    (
        "failure-domain.kubernetes.io/zone",
        "v1.17",
        "topology.kubernetes.io/zone",
    ),
];

/// The warnings about a Pod's spec and metadata; `holder` has both.
pub(super) fn of(holder: &Place<'_>) -> Vec<String> {
    let spec = holder.at("spec");
    let mut told = Vec::new();
    warn_of_labels(&spec, &mut told);
    warn_of_volumes(&spec, &mut told);
    warn_of_aliases(&spec.at("hostAliases"), &mut told);
    warn_of_secrets(&spec.at("imagePullSecrets"), &mut told);
    let grace = spec.at("terminationGracePeriodSeconds");
    if grace.int() < 0 {
        told.push(format!(
            "{}: must be >= 0; negative values are invalid and will be treated as 1",
            grace.path()
        ));
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in spec.at(field).items() {
            warn_of_container(&container, &mut told);
        }
    }
    warn_of_ports(&spec, &mut told);
    told
}

fn old_label(name: &str) -> Option<String> {
    let (_, since, instead) = OLD_LABELS.iter().find(|(old, _, _)| *old == name)?;
    Some(format!(
        "deprecated since {since}; use \"{instead}\" instead"
    ))
}

fn warn_of_labels(spec: &Place<'_>, told: &mut Vec<String>) {
    for (key, place) in spec.at("nodeSelector").entries() {
        told.extend(old_label(key).map(|why| format!("{}: {why}", place.path())));
    }
    let node = spec.down("affinity.nodeAffinity");
    let required = node.down("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let preferred = node.at("preferredDuringSchedulingIgnoredDuringExecution");
    let terms = required
        .items()
        .chain(preferred.items().map(|one| one.at("preference")));
    for term in terms {
        for one in term.at("matchExpressions").items() {
            let key = one.at("key");
            let why = old_label(key.text());
            told.extend(why.map(|why| format!("{}: {} is {why}", key.path(), key.text())));
        }
    }
    for one in spec.at("topologySpreadConstraints").items() {
        let key = one.at("topologyKey");
        let why = old_label(key.text());
        told.extend(why.map(|why| format!("{}: {} is {why}", key.path(), key.text())));
    }
}

fn warn_of_volumes(spec: &Place<'_>, told: &mut Vec<String>) {
    for volume in spec.at("volumes").items() {
        for (source, why) in [
            ("gcePersistentDisk", "deprecated in v1.17"),
            ("awsElasticBlockStore", "deprecated in v1.17"),
            (
                "gitRepo",
                "deprecated in v1.11, and disabled by default in v1.33+",
            ),
            (
                "photonPersistentDisk",
                "deprecated in v1.11, non-functional in v1.16+",
            ),
            ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
            ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
            ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
            ("storageos", "deprecated in v1.22, non-functional in v1.25+"),
            ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
            ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
            ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
        ] {
            let place = volume.at(source);
            if place.is_set() {
                told.push(format!("{}: {why}", place.path()));
            }
        }
    }
}

fn warn_of_aliases(aliases: &Place<'_>, told: &mut Vec<String>) {
    let mut seen: HashMap<&str, String> = HashMap::new();
    for alias in aliases.items() {
        let ip = alias.at("ip");
        if let Some(first) = seen.get(ip.text()) {
            told.push(format!("{}: duplicates {first}", ip.path()));
        } else {
            seen.insert(ip.text(), ip.path().to_owned());
        }
    }
}

fn warn_of_secrets(secrets: &Place<'_>, told: &mut Vec<String>) {
    for secret in secrets.items() {
        let name = secret.at("name");
        if name.is_empty() {
            told.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
}

fn warn_of_container(container: &Place<'_>, told: &mut Vec<String>) {
    let mut seen: HashMap<&str, &str> = HashMap::new();
    for variable in container.at("env").items() {
        let (name, value) = (variable.at("name").text(), variable.at("value").text());
        // A value that builds on the one before does not hide it.
        let builds = value.contains(&format!("$({name})"));
        if seen.contains_key(name) && !builds {
            told.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.path(),
                Value::from(name)
            ));
        }
        seen.insert(name, value);
    }
    for part in ["requests", "limits"] {
        for (name, amount) in container.down("resources").at(part).entries() {
            let whole = Quantity::parse(amount.text()).is_ok_and(Quantity::is_whole);
            if matches!(name, "memory" | "ephemeral-storage") && !whole {
                told.push(format!(
                    "{}: fractional byte value {} is invalid, must be an integer",
                    amount.path(),
                    amount.value()
                ));
            }
        }
    }
}

/// Ports that two containers, or one of them twice, name.
fn warn_of_ports(spec: &Place<'_>, told: &mut Vec<String>) {
    let mut seen: Vec<(String, String)> = Vec::new();
    for container in spec.at("containers").items() {
        for port in container.at("ports").items() {
            let text = |field: &str| port.at(field).text().to_owned();
            let identity = format!(
                "{}/{}/{}/{}",
                port.at("containerPort").int(),
                text("protocol"),
                text("hostIP"),
                port.at("hostPort").int()
            );
            match seen.iter().find(|(one, _)| *one == identity) {
                Some((_, first)) => told.push(format!(
                    "{}: duplicate port definition with {first}",
                    port.path()
                )),
                None => seen.push((identity, port.path().to_owned())),
            }
        }
    }
}
