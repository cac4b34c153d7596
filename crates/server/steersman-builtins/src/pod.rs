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
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::set;
use crate::fields::shared_warnings;

pub(super) use defaults::template as complete_template;
pub(super) use scheduling::check_tolerations;
pub(super) use spec::check_overhead;

/// The strategy of `Pod` in `core/v1`.
pub(super) const POD: Strategy = Strategy {
    defaults: defaults::pod,
    prepare,
    prepare_status: strategy::keep,
    validate,
    validate_status: status::check,
    // Only new Pods get these warnings: controllers write most updates, and controllers do not read
    // warnings.
    warnings: |new, old| match old {
        None => warnings::of_pod(&FieldPath::root(new)),
        Some(_) => Vec::new(),
    },
    status_warnings: |pod| {
        let (status, mut warnings) = (FieldPath::root(pod).at("status"), Vec::new());
        for address in ["podIPs", "hostIPs"].map(|list| status.at(list)) {
            for one in address.items() {
                shared_warnings::of_ip(&one.at("ip"), &mut warnings);
            }
        }
        warnings
    },
    ..Strategy::PLAIN
};

/// The strategy of `PodTemplate` in `core/v1`.
pub(super) const POD_TEMPLATE: Strategy = Strategy {
    defaults: defaults::template,
    validate: |object, _| {
        let mut errors = Errors::default();
        check_template(&FieldPath::root(object).at("template"), &mut errors);
        errors
    },
    warnings: |new, old| template_warnings(new, old, "template"),
    ..Strategy::PLAIN
};

/// Returns the warnings about a template in a new object, or in an update that changes the first
/// field of `names`. `names` is the path from the object to the template.
pub(super) fn template_warnings(new: &Value, old: Option<&Value>, names: &str) -> Vec<String> {
    let part = names.split('.').next().unwrap_or_default();
    if old.is_some_and(|old| old[part] == new[part]) {
        return Vec::new();
    }
    warnings::of(&FieldPath::root(new).down(names), SpecOwner::Template)
}

/// The owner of a Pod spec. A Pod and a template of Pods have slightly different rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpecOwner<'a> {
    /// The Pod with this name.
    Pod(&'a str),
    Template,
}

/// Returns the quality-of-service class: Guaranteed, Burstable or BestEffort.
pub(super) fn quality(spec: &Value) -> &'static str {
    resources::quality(spec)
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

fn validate(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let pod = FieldPath::root(new);
    match old {
        None => {
            check_whole(&pod, None, &mut errors);
            check_new(&pod, &mut errors);
        }
        Some(old) => {
            let old = FieldPath::root(old);
            check_whole(&pod, Some(&old), &mut errors);
            check_changed_notes(&pod, &old, &mut errors);
            update::check(&pod, &old, &mut errors);
        }
    }
    errors
}

/// Checks a Pod's spec, including the fields that only a template may leave open (upstream:
/// `validatePodMetadataAndSpec`).
fn check_whole(pod: &FieldPath<'_>, old: Option<&FieldPath<'_>>, errors: &mut Errors) {
    let name = pod.down("metadata.name").text();
    let spec = pod.at("spec");
    check_annotations(pod, &pod.down("metadata.annotations"), old, errors);
    spec::check(&spec, SpecOwner::Pod(name), errors);
    if spec.at("serviceAccountName").is_empty() {
        for volume in spec.at("volumes").items() {
            for source in volume.down("projected.sources").items() {
                let token = source.at("serviceAccountToken");
                if token.is_set() {
                    let detail = "must not be specified when serviceAccountName is not set";
                    errors.forbidden(&token, detail);
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for container in spec.at(field).items() {
            containers::check_image(&container, errors);
        }
    }
}

/// The annotation of a mirror Pod, by which a kubelet shows a static Pod.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Returns whether the annotation for the deletion cost is not an integer.
fn costs_nonsense(annotations: &Value) -> bool {
    let canonical = |text: &str| {
        text.parse::<i32>()
            .is_ok_and(|number| number.to_string() == text)
    };
    let cost = annotations.get(COST).and_then(Value::as_str);
    cost.is_some_and(|text| !canonical(text))
}

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Checks the annotations that the server evaluates (upstream: `ValidatePodSpecificAnnotations`).
/// Annotations of the old Pod pass unchecked.
fn check_annotations(
    holder: &FieldPath<'_>,
    annotations: &FieldPath<'_>,
    old: Option<&FieldPath<'_>>,
    errors: &mut Errors,
) {
    let mirror = annotations.key(MIRROR);
    if mirror.is_set() && holder.down("spec.nodeName").is_empty() {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&mirror, detail);
    }
    let before = old.map(|old| old.down("metadata.annotations"));
    let had = before.is_some_and(|before| costs_nonsense(before.value()));
    if !had && costs_nonsense(annotations.value()) {
        errors.invalid(&annotations.key(COST), "must be a 32bit integer");
    }
    profiles::check_notes(annotations, &holder.at("spec"), errors);
}

/// Checks that an update keeps the immutable annotations, and checks all annotations again
/// (upstream: `ValidatePodSpecificAnnotationUpdates`).
fn check_changed_notes(pod: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let (notes, before) = (
        pod.down("metadata.annotations"),
        old.down("metadata.annotations"),
    );
    let kind = |key: &str| match key {
        MIRROR => Some("mirror pod annotation"),
        _ if key.starts_with(profiles::APP_ARMOR) => Some("AppArmor annotations"),
        _ => None,
    };
    for (key, note) in before.entries() {
        let kept = notes.value().get(key) == Some(note.value());
        if let Some(kind) = kind(key).filter(|_| !kept) {
            errors.forbidden(&note, &format!("may not remove or update {kind}"));
        }
    }
    for (key, note) in notes.entries() {
        let added = before.value().get(key).is_none();
        if let Some(kind) = kind(key).filter(|_| added) {
            errors.forbidden(&note, &format!("may not add {kind}"));
        }
    }
    check_annotations(pod, &notes, Some(old), errors);
}

/// Checks the rules that hold only for new Pods.
fn check_new(pod: &FieldPath<'_>, errors: &mut Errors) {
    let spec = pod.at("spec");
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral, "cannot be set on create");
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&spec.at("nodeName"), detail);
    }
    profiles::check_agreement(pod, errors);
}

/// Checks a template of Pods: labels, annotations and spec (upstream:
/// `ValidatePodTemplateSpec`).
pub(super) fn check_template(template: &FieldPath<'_>, errors: &mut Errors) {
    // As upstream, the errors of a template do not name the metadata.
    let metadata = template.at("metadata");
    let of = |field: &'static str| template.named(field, Some(metadata.at(field).value()));
    check::labels(&of("labels"), errors);
    check::annotations(&of("annotations"), errors);
    check_annotations(template, &of("annotations"), None, errors);
    let spec = template.at("spec");
    spec::check(&spec, SpecOwner::Template, errors);
    profiles::check_agreement(template, errors);
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&ephemeral, detail);
    }
}

/// Checks an update of a Pod's ephemeral containers.
pub(crate) fn check_ephemeral(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let (pod, old) = (FieldPath::root(new), FieldPath::root(old));
    check_whole(&pod, Some(&old), &mut errors);
    check_changed_notes(&pod, &old, &mut errors);
    if is_mirror(&old) {
        return static_pod("static pods do not support ephemeral containers");
    }
    update::check_ephemeral(&pod, &old, &mut errors);
    errors
}

/// Checks an update of the resources of a Pod's containers.
pub(crate) fn check_resize(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let (pod, old) = (FieldPath::root(new), FieldPath::root(old));
    check_whole(&pod, Some(&old), &mut errors);
    if is_mirror(&old) {
        return static_pod("static pods cannot be resized");
    }
    resize::check(&pod, &old, &mut errors);
    errors
}

fn is_mirror(pod: &FieldPath<'_>) -> bool {
    pod.down("metadata.annotations").key(MIRROR).is_set()
}

/// Returns the only error of an update that the kubelet of a static Pod alone may do.
fn static_pod(detail: &str) -> Errors {
    let mut errors = Errors::default();
    errors.forbidden(&FieldPath::new("[]", &Value::Null), detail);
    errors
}

#[cfg(test)]
mod tests;
