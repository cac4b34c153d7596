//! Machine: Pods and PodTemplates: defaults, validation of creates and updates, and status.

pub(crate) mod resources;
mod env;
mod handlers;
mod volumes;
mod profiles;
mod security;
mod scheduling;
mod containers;
mod spec;
mod update;
mod resize;
mod image;
mod defaults;
mod status;
mod overlaps;
mod warnings;
mod strategy;

use serde_json::Value;

use crate::Strategy;
use crate::fields::fill::set;
use crate::fields::{FieldPath, check, shared_warnings};

pub(super) use defaults::template as complete_template;
pub(super) use scheduling::check_tolerations;
pub(super) use spec::check_overhead;

pub(super) const POD: Strategy = Strategy {
    defaults: defaults::pod,
    prepare,
    prepare_status: strategy::keep,
    validate,
    validate_status: status::check,
    // Only new Pods get these warnings: controllers write most updates and read no warnings.
    warn: |pod, old| {
        if old.is_none() {
            warnings::of_pod(pod);
        }
    },
    warn_of_status: |pod| {
        for addresses in pod.at("status").parts(["podIPs", "hostIPs"]) {
            addresses.each(|one| shared_warnings::of_ip(&one.at("ip")));
        }
    },
    ..Strategy::PLAIN
};

pub(super) const POD_TEMPLATE: Strategy = Strategy {
    defaults: defaults::template,
    validate: |object, _| check_template(&object.at("template")),
    warn: |new, old| warn_of_template(new, old, "template"),
    ..Strategy::PLAIN
};

/// Warns of a new or changed template at the path `names`.
pub(super) fn warn_of_template(new: &FieldPath<'_>, old: Option<&Value>, names: &'static str) {
    let part = names.split('.').next().unwrap_or_default();
    if old.is_none_or(|old| old[part] != new.value()[part]) {
        warnings::of(&new.down(names), SpecOwner::Template);
    }
}

/// The owner of a Pod spec. A Pod and a template of Pods have slightly different rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpecOwner<'a> {
    /// The Pod with this name.
    Pod(&'a str),
    Template,
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    if let (Some(old), Some(spec)) = (old, new.get_mut("spec")) {
        for decided in ["priority", "preemptionPolicy"] {
            if !old["spec"][decided].is_null() {
                set(spec, decided, old["spec"][decided].clone());
            }
        }
    }
    defaults::admit(new);
    match old {
        None => strategy::create(new),
        Some(old) => update::keep(new, old),
    }
}

fn validate(pod: &FieldPath<'_>, old: Option<&Value>) {
    match old {
        None => {
            check_whole(pod, None);
            check_new(pod);
        }
        Some(old) => {
            let old = pod.with(old);
            check_whole(pod, Some(&old));
            check_changed_notes(pod, &old);
            update::check(pod, &old);
        }
    }
}

/// Checks the annotations and the spec of a Pod (upstream: `validatePodMetadataAndSpec`).
fn check_whole(pod: &FieldPath<'_>, old: Option<&FieldPath<'_>>) {
    let name = pod.down("metadata.name").text();
    let spec = pod.at("spec");
    check_annotations(pod, &pod.down("metadata.annotations"), old);
    spec::check(&spec, SpecOwner::Pod(name));
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            volume.down("projected.sources").each(|source| {
                let token = source.at("serviceAccountToken");
                token.deny("must not be specified when serviceAccountName is not set");
            });
        }
    }
    for field in ["containers", "initContainers"] {
        spec.at(field).each(containers::check_image);
    }
}

/// The annotation of a mirror Pod, by which a kubelet shows a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns whether the annotation for the deletion cost is not an integer.
fn costs_nonsense(annotations: &Value) -> bool {
    let cost = annotations.get(COST).and_then(Value::as_str);
    cost.is_some_and(|text| text.parse::<i32>().map(|n| n.to_string()).as_deref() != Ok(text))
}

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks the annotations that the server evaluates (upstream: `ValidatePodSpecificAnnotations`).
/// Annotations of the old Pod pass unchecked.
fn check_annotations(
    holder: &FieldPath<'_>,
    annotations: &FieldPath<'_>,
    old: Option<&FieldPath<'_>>,
) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && holder.down("spec.nodeName").is_empty() {
        mirror.invalid("must set spec.nodeName if mirror pod annotation is set");
    }
    let before = old.map(|old| old.down("metadata.annotations"));
    let had = before.is_some_and(|before| costs_nonsense(before.value()));
    if !had && costs_nonsense(annotations.value()) {
        annotations.key(COST).invalid("must be a 32bit integer");
    }
    profiles::check_notes(annotations, &holder.at("spec"));
}

/// Checks that an update keeps the immutable annotations, and checks all annotations again
/// (upstream: `ValidatePodSpecificAnnotationUpdates`).
fn check_changed_notes(pod: &FieldPath<'_>, old: &FieldPath<'_>) {
    let [notes, before] = [pod, old].map(|pod| pod.down("metadata.annotations"));
    let kind = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(profiles::APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, note) in before.entries() {
        let kept = notes.value().get(key) == Some(note.value());
        if let Some(kind) = kind(key).filter(|_| !kept) {
            note.forbidden(&format!("may not remove or update {kind}"));
        }
    }
    for (key, note) in notes.entries() {
        let added = before.value().get(key).is_none();
        if let Some(kind) = kind(key).filter(|_| added) {
            note.forbidden(&format!("may not add {kind}"));
        }
    }
    check_annotations(pod, &notes, Some(old));
}

fn check_new(pod: &FieldPath<'_>) {
    let spec = pod.at("spec");
    let ephemeral = spec.at("ephemeralContainers");
    ephemeral.deny_filled("cannot be set on create");
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        spec.at("nodeName").forbidden(detail);
    }
    profiles::check_agreement(pod);
}

/// Checks a template of Pods (upstream: `ValidatePodTemplateSpec`).
pub(super) fn check_template(template: &FieldPath<'_>) {
    // As upstream, the errors of a template do not name the metadata.
    let metadata = template.at("metadata");
    let of = |field: &'static str| template.named(field, Some(metadata.at(field).value()));
    check::labels(&of("labels"));
    check::annotations(&of("annotations"));
    check_annotations(template, &of("annotations"), None);
    let spec = template.at("spec");
    spec::check(&spec, SpecOwner::Template);
    profiles::check_agreement(template);
    let ephemeral = spec.at("ephemeralContainers");
    ephemeral.deny_filled("ephemeral containers not allowed in pod template");
}

pub(crate) fn check_ephemeral(pod: &FieldPath<'_>, old: &Value) {
    let old = pod.with(old);
    check_whole(pod, Some(&old));
    check_changed_notes(pod, &old);
    if is_mirror(&old) {
        return refuse_whole(pod, "static pods do not support ephemeral containers");
    }
    update::check_ephemeral(pod, &old);
}

pub(crate) fn check_resize(pod: &FieldPath<'_>, old: &Value) {
    let old = pod.with(old);
    check_whole(pod, Some(&old));
    if is_mirror(&old) {
        return refuse_whole(pod, "static pods cannot be resized");
    }
    resize::check(pod, &old);
}

fn is_mirror(pod: &FieldPath<'_>) -> bool {
    pod.down("metadata.annotations").key(MIRROR).is_set()
}

/// Replaces all errors by one about the Pod as a whole.
fn refuse_whole(pod: &FieldPath<'_>, detail: &str) {
    pod.truncate_errors(0);
    pod.shown_at("[]", pod.value()).forbidden(detail);
}

#[cfg(test)]
mod tests;
