//! Machine: warnings about Pods and templates (upstream: `pkg/api/pod/warnings.go`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steersman_apimachinery::names;

use crate::fields::field_path::FieldPath;
use crate::fields::shared_warnings;
use crate::storage::claim;

use super::profiles::{self, APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, containers};
use super::{SpecOwner, overlaps};

const SECCOMP_OVER: &str = "non-functional in v1.27+; use the \"seccompProfile\" field instead";
const APP_ARMOR_OLD: &str = "deprecated since v1.30; use the \"appArmorProfile\" field instead";
const NO_POD: &str = "a null labelSelector results in matching no pod";

/// Annotations that fields have replaced.
const OLD_NOTES: [(&str, &str); 3] = [
    (
        "scheduler.alpha.kubernetes.io/critical-pod",
        "non-functional in v1.16+; use the \"priorityClassName\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
    (
        "security.alpha.kubernetes.io/unsafe-sysctls",
        "non-functional in v1.11+; use the \"sysctls\" field instead",
    ),
];

/// Returns the warnings about a new Pod. Updates have none.
pub(super) fn of_pod(pod: &FieldPath<'_>) -> Vec<String> {
    let name = pod.down("metadata.name").text();
    let mut warnings = app_armor(pod);
    let wrong = names::check_label(name);
    if !wrong.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    warnings.extend(of(pod, SpecOwner::Pod(name)));
    warnings
}

/// Returns the warnings about a Pod's spec and metadata. `holder` is the Pod or the template.
pub(super) fn of(holder: &FieldPath<'_>, owner: SpecOwner<'_>) -> Vec<String> {
    let spec = holder.at("spec");
    let notes = holder.down("metadata.annotations");
    let mut warnings = Vec::new();
    warn_of_labels(&spec, &mut warnings);
    for (key, why) in OLD_NOTES {
        let note = notes.key(key);
        warnings.extend(note.is_set().then(|| format!("{}: {why}", note.path())));
    }
    warn_of_volumes(&spec, &mut warnings);
    overlaps::warn(&spec.at("volumes"), &mut warnings);
    warn_of_names(&spec, &mut warnings);
    for name in ["memory", "ephemeral-storage"] {
        shared_warnings::of_bytes(&spec.at("overhead").key(name), &mut warnings);
    }
    let profile = spec.down("securityContext.seccompProfile");
    let note = notes.key(SECCOMP_POD);
    if note.is_set() && !profile.is_set() {
        warnings.push(format!("{}: {SECCOMP_OVER}", note.path()));
    }
    for container in containers(&spec) {
        warn_of_notes(&container, &spec, &notes, owner, &mut warnings);
        warn_of_container(&container, &mut warnings);
    }
    warn_of_ports(&spec, &mut warnings);
    warn_of_affinities(&spec.at("affinity"), &mut warnings);
    for server in spec.down("dnsConfig.nameservers").items() {
        shared_warnings::of_ip(&server, &mut warnings);
    }
    for alias in spec.at("hostAliases").items() {
        shared_warnings::of_ip(&alias.at("ip"), &mut warnings);
    }
    warnings
}

fn warn_of_labels(spec: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for (key, field) in spec.at("nodeSelector").entries() {
        warnings
            .extend(shared_warnings::old_label(key).map(|why| format!("{}: {why}", field.path())));
    }
    let node = spec.down("affinity.nodeAffinity");
    let required = node.down("requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    for term in required.items() {
        shared_warnings::of_node_term(&term, false, warnings);
    }
    let preferred = node.at("preferredDuringSchedulingIgnoredDuringExecution");
    for term in preferred.items() {
        shared_warnings::of_node_term(&term.at("preference"), true, warnings);
    }
    for one in spec.at("topologySpreadConstraints").items() {
        let (key, labels) = (one.at("topologyKey"), one.at("labelSelector"));
        warnings.extend(shared_warnings::of_key(&key, key.text()));
        if !labels.is_set() {
            warnings.push(format!("{}: {NO_POD}", labels.path()));
        }
    }
}

fn warn_of_volumes(spec: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for volume in spec.at("volumes").items() {
        shared_warnings::of_sources(&volume, shared_warnings::OLD_SOURCES, warnings);
        shared_warnings::of_sources(&volume, shared_warnings::OLD_SOURCES_OF_PODS, warnings);
        claim::warn_of_spec(&volume.down("ephemeral.volumeClaimTemplate.spec"), warnings);
    }
}

/// Warns of names that are empty or given twice.
fn warn_of_names(spec: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for one in spec.at(list).items().map(|one| one.at(field)) {
            if !seen.insert(one.text()) {
                let value = Value::from(one.text());
                warnings.push(format!("{}: duplicate {field} {value}", one.path()));
            }
        }
    }
    for name in spec
        .at("imagePullSecrets")
        .items()
        .map(|one| one.at("name"))
    {
        if name.is_empty() {
            warnings.push(format!("{}: invalid empty name \"\"", name.path()));
        }
    }
}

/// Warns of annotations about a container that does not set the field instead.
fn warn_of_notes(
    container: &FieldPath<'_>,
    spec: &FieldPath<'_>,
    notes: &FieldPath<'_>,
    owner: SpecOwner<'_>,
    warnings: &mut Vec<String>,
) {
    let name = container.at("name").text();
    let own = container.at("securityContext");
    let (seccomp, app_armor) = (
        format!("{SECCOMP_CONTAINER}{name}"),
        format!("{APP_ARMOR}{name}"),
    );
    let note = notes.key(&seccomp);
    if note.is_set() && !own.at("seccompProfile").is_set() {
        warnings.push(format!("{}: {SECCOMP_OVER}", note.path()));
    }
    let note = notes.key(&app_armor);
    let field =
        own.at("appArmorProfile").is_set() || spec.down("securityContext.appArmorProfile").is_set();
    // A Pod has the field already, because the server derives it from the annotation. `app_armor`
    // warns of that.
    if owner == SpecOwner::Template && note.is_set() && !field {
        warnings.push(format!("{}: {APP_ARMOR_OLD}", note.path()));
    }
}

/// Returns the warnings about a Pod's annotations about AppArmor: the annotation names no valid
/// profile, or the server set a container's field from the annotation (upstream:
/// `applyAppArmorVersionSkew`).
fn app_armor(pod: &FieldPath<'_>) -> Vec<String> {
    let spec = pod.at("spec");
    if spec.down("os.name").text() == "windows" {
        return Vec::new();
    }
    let whole = spec.down("securityContext.appArmorProfile");
    let mut warnings = Vec::new();
    for container in containers(&spec) {
        let key = format!("{APP_ARMOR}{}", container.at("name").text());
        let note = pod.down("metadata.annotations").key(&key);
        let own = container.down("securityContext.appArmorProfile");
        let derived = profiles::of_note(note.text());
        let same = derived
            .as_ref()
            .is_some_and(|derived| derived == whole.value());
        let filled = derived
            .as_ref()
            .is_some_and(|derived| derived == own.value());
        let open = !own.is_set() || filled;
        if note.is_set() && open && !same {
            warnings.push(format!("{}: {APP_ARMOR_OLD}", note.path()));
        }
    }
    warnings
}

fn warn_of_container(container: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for name in ["memory", "ephemeral-storage"] {
        for part in ["limits", "requests"] {
            shared_warnings::of_bytes(&container.down("resources").at(part).key(name), warnings);
        }
    }
    let mut seen = HashSet::new();
    for variable in container.at("env").items() {
        let (name, value) = (variable.at("name").text(), variable.at("value").text());
        if seen.insert(name) {
            continue;
        }
        // A value that refers to the previous value does not hide the previous value.
        let before = format!("$({name})");
        let builds = value.contains(&before) && value != before;
        if variable.at("valueFrom").is_set() || !builds {
            warnings.push(format!(
                "{}: hides previous definition of {}, which may be dropped when using apply",
                variable.path(),
                Value::from(name)
            ));
        }
    }
}

/// Largest number of ports of the same number that a port is compared with.
const MOST: usize = 100;

/// One port of a container, with its path.
struct Port<'a> {
    path: String,
    host_ip: &'a str,
    host_port: i64,
}

/// Warns of ports and names of ports that two containers share, or one container has twice.
fn warn_of_ports(spec: &FieldPath<'_>, warnings: &mut Vec<String>) {
    let mut seen: HashMap<(i64, &str), Vec<Port<'_>>> = HashMap::new();
    let ports = || containers(spec).flat_map(|container| container.at("ports").items());
    for port in ports() {
        let text = |field: &'static str| port.at(field).text();
        let (number, protocol) = (port.at("containerPort").int(), text("protocol"));
        let port = Port {
            path: port.path(),
            host_ip: text("hostIP"),
            host_port: port.at("hostPort").int(),
        };
        if !port.host_ip.is_empty() && port.host_port == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{}}}",
                port.path,
                text("name"),
                port.host_ip
            ));
        }
        let others = seen.entry((number, protocol)).or_default();
        for other in others.iter().take(MOST) {
            let what = if port.host_ip == other.host_ip && port.host_port == other.host_port {
                "duplicate"
            } else if port.host_port == 0 || other.host_port == 0 {
                "overlapping"
            } else if port.host_port == other.host_port
                && port.host_ip.is_empty() != other.host_ip.is_empty()
            {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!(
                "{}: {what} port definition with {}",
                port.path, other.path
            ));
        }
        others.push(port);
    }
    let mut names: HashMap<&str, String> = HashMap::new();
    let steady = |container: &FieldPath<'_>| {
        let first = container.path().contains("initContainers");
        !first || container.at("restartPolicy").text() == "Always"
    };
    let lasting = containers(spec).filter(steady);
    for port in lasting.flat_map(|container| container.at("ports").items()) {
        let name = port.at("name").text();
        if name.is_empty() {
            continue;
        }
        if let Some(other) = names.get(name) {
            warnings.push(format!(
                "{}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
                port.path(),
                Value::from(name)
            ));
        } else {
            names.insert(name, port.path());
        }
    }
}

/// Warns of affinity terms that no Pod matches, because they have no selector.
fn warn_of_affinities(affinity: &FieldPath<'_>, warnings: &mut Vec<String>) {
    for kind in ["podAffinity", "podAntiAffinity"] {
        let (required, preferred) = (
            affinity
                .at(kind)
                .at("requiredDuringSchedulingIgnoredDuringExecution"),
            affinity
                .at(kind)
                .at("preferredDuringSchedulingIgnoredDuringExecution"),
        );
        let preferred = preferred.items().map(|one| one.at("podAffinityTerm"));
        for term in required.items().chain(preferred) {
            let labels = term.at("labelSelector");
            if !labels.is_set() {
                warnings.push(format!("{}: {NO_POD}", labels.path()));
            }
        }
    }
}
