//! Machine: seccomp and AppArmor profiles, in fields and in the annotations that preceded them.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::fields::fill::{list, part, put};
use crate::fields::{FieldPath, check};

pub(super) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(super) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(super) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Iterates over all containers of a spec, in the order of upstream's checks.
pub(super) fn containers<'a>(
    spec: &FieldPath<'a>,
) -> impl Iterator<Item = FieldPath<'a>> + use<'a> {
    let lists = spec.parts(["initContainers", "containers", "ephemeralContainers"]);
    lists.into_iter().flat_map(|list| list.items())
}

/// Returns the field that equals an annotation about AppArmor, or `None` for an invalid annotation.
pub(super) fn of_note(note: &str) -> Option<Value> {
    match note {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let profile = note.strip_prefix("localhost/")?;
            let valid = !profile.is_empty() && profile.trim() == profile && profile.len() <= 4095;
            valid.then(|| json!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}

/// Derives AppArmor fields from annotations (upstream: `applyAppArmorVersionSkew`).
pub(super) fn fill(pod: &mut Value) {
    if pod["spec"]["os"]["name"] == "windows" {
        return;
    }
    let notes = pod["metadata"]["annotations"].clone();
    let whole = pod["spec"]["securityContext"]["appArmorProfile"].clone();
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list(spec, field) {
            let name = container["name"].as_str().unwrap_or_default();
            let note = notes[format!("{APP_ARMOR}{name}")].as_str();
            let derived = note.and_then(of_note).filter(|derived| *derived != whole);
            if container["securityContext"]["appArmorProfile"].is_null()
                && let Some(derived) = derived
                && let Some(context) = part(container, "securityContext")
            {
                put(context, "appArmorProfile", derived);
            }
        }
    }
}

/// Checks the annotations (upstream: `ValidateSeccompPodAnnotations` and `ValidateAppArmorPodAnnotations`).
pub(super) fn check_notes(notes: &FieldPath<'_>, spec: &FieldPath<'_>) {
    let pod = notes.key(SECCOMP_POD);
    pod.if_set(|pod| check_seccomp(notes, SECCOMP_POD, pod.text()));
    for (key, note) in notes.entries() {
        if key.starts_with(SECCOMP_CONTAINER) {
            check_seccomp(notes, key, note.text());
        }
    }
    let names: HashSet<&str> = containers(spec)
        .map(|container| container.at("name").text())
        .collect();
    for (key, note) in notes.entries() {
        let Some(name) = key.strip_prefix(APP_ARMOR) else {
            continue;
        };
        if !names.contains(name) {
            note.invalid_as(name, "container not found");
        }
        let text = note.text();
        let known = matches!(text, "" | "runtime/default" | "unconfined");
        if !known && !text.starts_with("localhost/") {
            let shown = note.value();
            note.invalid(&format!("invalid AppArmor profile name: {shown}"));
        }
    }
}

fn check_seccomp(notes: &FieldPath<'_>, key: &str, profile: &str) {
    // As upstream, the path names the annotation like a field.
    let at = notes.named(key, notes.value().get(key));
    if matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
        return;
    }
    match profile.strip_prefix("localhost/") {
        Some(path) => check::descending_path(&at.with(&path.into())),
        None => at.invalid("must be a valid seccomp profile"),
    }
}

/// Checks that annotations and fields of a new Pod or a template agree (upstream:
/// `validateSeccompAnnotationsAndFields` and `validateAppArmorAnnotationsAndFieldsMatchOnCreate`).
pub(super) fn check_agreement(holder: &FieldPath<'_>) {
    let (spec, notes) = (holder.at("spec"), holder.down("metadata.annotations"));
    let whole = spec.down("securityContext.seccompProfile");
    agree(&whole, notes.value().get(SECCOMP_POD), "seccomp");
    for container in containers(&spec) {
        let key = format!("{SECCOMP_CONTAINER}{}", container.at("name").text());
        let own = container.down("securityContext.seccompProfile");
        agree(&own, notes.value().get(&key), "seccomp");
    }
    if spec.down("os.name").text() == "windows" {
        return;
    }
    let whole = spec.down("securityContext.appArmorProfile");
    for container in containers(&spec) {
        let key = format!("{APP_ARMOR}{}", container.at("name").text());
        let own = container.down("securityContext.appArmorProfile");
        let profile = if own.is_set() { &own } else { &whole };
        let shown = own.with(profile.value());
        agree(&shown, notes.value().get(&key), "apparmor");
    }
}

fn agree(profile: &FieldPath<'_>, note: Option<&Value>, what: &str) {
    let Some(note) = note.and_then(Value::as_str) else {
        return;
    };
    let named = note.strip_prefix("localhost/");
    let default = note == "runtime/default" || (what == "seccomp" && note == "docker/default");
    let same = match profile.at("type").text() {
        "Unconfined" => note == "unconfined",
        "RuntimeDefault" => default,
        "Localhost" => named.is_some(),
        _ => return,
    };
    let path = profile.at("localhostProfile");
    if !same {
        let detail = format!("{what} type in annotation and field must match");
        profile.at("type").forbidden(&detail);
    } else if named.is_some_and(|named| !path.is_set() || path.text() != named) {
        let detail = format!("{what} profile in annotation and field must match");
        path.forbidden(&detail);
    }
}
