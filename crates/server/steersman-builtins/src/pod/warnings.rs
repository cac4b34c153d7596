//! Machine: warnings about Pods and templates (upstream: `pkg/api/pod/warnings.go`).

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use steersman_apimachinery::names;

use crate::fields::{FieldPath, shared_warnings};
use crate::storage::claim;

use super::profiles::{self, APP_ARMOR, SECCOMP_CONTAINER, SECCOMP_POD, containers};
use super::scheduling::{PREFERRED, REQUIRED};
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

pub(super) fn of_pod(pod: &FieldPath<'_>) {
    let name = pod.down("metadata.name");
    warn_of_app_armor(pod);
    let wrong = names::check_label(name.text());
    if !wrong.is_empty() {
        name.warn(&format!(
            "this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
            wrong.join(" ")
        ));
    }
    of(pod, SpecOwner::Pod(name.text()));
}

/// Warns of a Pod's spec and metadata. `holder` is the Pod or the template.
pub(super) fn of(holder: &FieldPath<'_>, owner: SpecOwner<'_>) {
    let spec = holder.at("spec");
    let notes = holder.down("metadata.annotations");
    warn_of_labels(&spec);
    for (key, why) in OLD_NOTES {
        notes.key(key).if_set(|note| note.warn(why));
    }
    for volume in spec.at("volumes").items() {
        shared_warnings::of_sources(&volume, shared_warnings::OLD_SOURCES);
        shared_warnings::of_sources(&volume, shared_warnings::OLD_SOURCES_OF_PODS);
        claim::warn_of_spec(&volume.down("ephemeral.volumeClaimTemplate.spec"));
    }
    overlaps::warn(&spec.at("volumes"));
    warn_of_names(&spec);
    for name in ["memory", "ephemeral-storage"] {
        shared_warnings::of_bytes(&spec.at("overhead").key(name));
    }
    let note = notes.key(SECCOMP_POD);
    if note.is_set() && !spec.down("securityContext.seccompProfile").is_set() {
        note.warn(SECCOMP_OVER);
    }
    for container in containers(&spec) {
        warn_of_notes(&container, &spec, &notes, owner);
        warn_of_container(&container);
    }
    warn_of_ports(&spec);
    warn_of_affinities(&spec.at("affinity"));
    spec.down("dnsConfig.nameservers")
        .each(shared_warnings::of_ip);
    let aliases = spec.at("hostAliases");
    aliases.each(|alias| shared_warnings::of_ip(&alias.at("ip")));
}

fn warn_of_labels(spec: &FieldPath<'_>) {
    for (key, field) in spec.at("nodeSelector").entries() {
        if let Some(why) = shared_warnings::old_label(key) {
            field.warn(&why);
        }
    }
    let node = spec.down("affinity.nodeAffinity");
    let required = node.at(REQUIRED).at("nodeSelectorTerms");
    required.each(|term| shared_warnings::of_node_term(term, false));
    let preferred = node.at(PREFERRED);
    preferred.each(|term| shared_warnings::of_node_term(&term.at("preference"), true));
    for one in spec.at("topologySpreadConstraints").items() {
        let [key, labels] = one.parts(["topologyKey", "labelSelector"]);
        shared_warnings::of_key(&key, key.text());
        if !labels.is_set() {
            labels.warn(NO_POD);
        }
    }
}

/// Warns of names that are empty or given twice.
fn warn_of_names(spec: &FieldPath<'_>) {
    for (list, field) in [("hostAliases", "ip"), ("imagePullSecrets", "name")] {
        let mut seen = HashSet::new();
        for one in spec.at(list).items().map(|one| one.at(field)) {
            if !seen.insert(one.text()) {
                let value = Value::from(one.text());
                one.warn(&format!("duplicate {field} {value}"));
            }
        }
    }
    for secret in spec.at("imagePullSecrets").items() {
        if secret.at("name").is_empty() {
            secret.at("name").warn("invalid empty name \"\"");
        }
    }
}

/// Warns of annotations about a container that does not set the field instead.
fn warn_of_notes(
    container: &FieldPath<'_>,
    spec: &FieldPath<'_>,
    notes: &FieldPath<'_>,
    owner: SpecOwner<'_>,
) {
    let name = container.at("name").text();
    let own = container.at("securityContext");
    let [seccomp, app_armor] =
        [SECCOMP_CONTAINER, APP_ARMOR].map(|prefix| format!("{prefix}{name}"));
    let note = notes.key(&seccomp);
    if note.is_set() && !own.at("seccompProfile").is_set() {
        note.warn(SECCOMP_OVER);
    }
    let note = notes.key(&app_armor);
    let field =
        own.at("appArmorProfile").is_set() || spec.down("securityContext.appArmorProfile").is_set();
    // The server derives the field of a Pod from the annotation; see `warn_of_app_armor`.
    if owner == SpecOwner::Template && note.is_set() && !field {
        note.warn(APP_ARMOR_OLD);
    }
}

/// Warns of a Pod's annotations about AppArmor: the annotation names no valid profile, or the server
/// set a container's field from the annotation (upstream: `applyAppArmorVersionSkew`).
fn warn_of_app_armor(pod: &FieldPath<'_>) {
    let spec = pod.at("spec");
    if spec.down("os.name").text() == "windows" {
        return;
    }
    let whole = spec.down("securityContext.appArmorProfile");
    for container in containers(&spec) {
        let key = format!("{APP_ARMOR}{}", container.at("name").text());
        let note = pod.down("metadata.annotations").key(&key);
        let own = container.down("securityContext.appArmorProfile");
        let derived = profiles::of_note(note.text());
        let is_from_note = |field: &FieldPath<'_>| derived.as_ref() == Some(field.value());
        let open = !own.is_set() || is_from_note(&own);
        if note.is_set() && open && !is_from_note(&whole) {
            note.warn(APP_ARMOR_OLD);
        }
    }
}

fn warn_of_container(container: &FieldPath<'_>) {
    for name in ["memory", "ephemeral-storage"] {
        for part in container.at("resources").parts(["limits", "requests"]) {
            shared_warnings::of_bytes(&part.key(name));
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
            let name = Value::from(name);
            variable.warn(&format!(
                "hides previous definition of {name}, which may be dropped when using apply"
            ));
        }
    }
}

/// Largest number of ports of the same number that a port is compared with.
const MOST: usize = 100;

fn host_of<'a>(port: &FieldPath<'a>) -> (&'a str, i64) {
    (port.at("hostIP").text(), port.at("hostPort").int())
}

/// Warns of ports and names of ports that two containers share, or one container has twice.
fn warn_of_ports(spec: &FieldPath<'_>) {
    let mut seen: HashMap<(i64, &str), Vec<FieldPath<'_>>> = HashMap::new();
    for port in containers(spec).flat_map(|container| container.at("ports").items()) {
        let (number, protocol) = (port.at("containerPort").int(), port.at("protocol").text());
        let (ip, host_port) = host_of(&port);
        if !ip.is_empty() && host_port == 0 {
            port.warn(&format!(
                "hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}",
                port.at("name").text()
            ));
        }
        let others = seen.entry((number, protocol)).or_default();
        for other in others.iter().take(MOST) {
            let (other_ip, other_port) = host_of(other);
            let what = if (ip, host_port) == (other_ip, other_port) {
                "duplicate"
            } else if host_port == 0 || other_port == 0 {
                "overlapping"
            } else if host_port == other_port && ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            port.warn(&format!("{what} port definition with {}", other.path()));
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
            let name = Value::from(name);
            port.warn(&format!(
                "duplicate port name {name} with {other}, services and probes that select ports by name will use {other}"
            ));
        } else {
            names.insert(name, port.path());
        }
    }
}

/// Warns of affinity terms that no Pod matches, because they have no selector.
fn warn_of_affinities(affinity: &FieldPath<'_>) {
    for kind in affinity.parts(["podAffinity", "podAntiAffinity"]) {
        let preferred = kind
            .at(PREFERRED)
            .items()
            .map(|one| one.at("podAffinityTerm"));
        for term in kind.at(REQUIRED).items().chain(preferred) {
            let labels = term.at("labelSelector");
            if !labels.is_set() {
                labels.warn(NO_POD);
            }
        }
    }
}
