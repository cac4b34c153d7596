//! Machine: Pods: their defaults, what is checked when they are made and changed, and their status.

mod resources;
mod env;
mod handlers;
mod volumes;
mod security;
mod scheduling;
mod containers;
mod spec;
mod update;
mod resize;
mod defaults;
mod status;
mod warnings;

use serde_json::Value;

use super::Kind;
use super::check;
use super::fill::{part, set};
use super::place::{Errors, Place};

pub(super) use defaults::template as complete_template;

/// `core/v1` `Pod`.
pub(super) const POD: Kind = Kind {
    defaults: defaults::pod,
    prepare,
    prepare_status: |new, old| {
        // A kubelet that does not know the class leaves it out.
        let class = old["status"]["qosClass"].clone();
        if let Some(status) = part(new, "status") {
            set(status, "qosClass", class);
        }
    },
    validate,
    validate_status: status::check,
    warnings: |new, old| {
        let changed = old.is_none_or(|old| old["spec"] != new["spec"]);
        let told = changed.then(|| warnings::of(&Place::root(new)));
        told.unwrap_or_default()
    },
};

/// `core/v1` `PodTemplate`.
pub(super) const POD_TEMPLATE: Kind = Kind {
    defaults: defaults::template,
    validate: |object, _| {
        let mut errors = Errors::default();
        check_template(&Place::root(object).at("template"), &mut errors);
        errors
    },
    warnings: |new, old| template_warnings(new, old, "template"),
    ..Kind::PLAIN
};

/// The warnings about a template, where it is new; `names` lead to it from the object.
pub(super) fn template_warnings(new: &Value, old: Option<&Value>, names: &str) -> Vec<String> {
    let template = Place::root(new).down(names);
    let same = old.is_some_and(|old| Place::root(old).down(names).value() == template.value());
    if same {
        return Vec::new();
    }
    warnings::of(&template)
}

/// What is checked of a spec differs a little between a Pod and a template of Pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose<'a> {
    /// The spec of the Pod of this name.
    Pod(&'a str),
    Template,
}

/// Where a field of a container's resources moves a Pod to another class.
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
    if let Some(old) = old {
        update::keep(new, old);
    }
}

fn validate(new: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let pod = Place::root(new);
    check_whole(&pod, &mut errors);
    match old {
        None => check_new(&pod, &mut errors),
        Some(old) => update::check(&pod, &Place::root(old), &mut errors),
    }
    errors
}

/// Checks a Pod's spec, and what a template may leave open (upstream:
/// `validatePodMetadataAndSpec`).
fn check_whole(pod: &Place<'_>, errors: &mut Errors) {
    let name = pod.down("metadata.name").text();
    let spec = pod.at("spec");
    check_annotations(pod, errors);
    spec::check(&spec, Whose::Pod(name), errors);
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

/// Annotations of a Pod that mean something to the server.
fn check_annotations(pod: &Place<'_>, errors: &mut Errors) {
    const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
    let annotations = pod.down("metadata.annotations");
    let cost = annotations.value().get(COST).and_then(Value::as_str);
    let canonical = |text: &str| {
        text.parse::<i32>()
            .is_ok_and(|number| number.to_string() == text)
    };
    if let Some(text) = cost.filter(|text| !canonical(text)) {
        let detail = "must be a 32bit integer";
        errors.invalid_as(&annotations.key(COST), &Value::from(text), detail);
    }
}

/// What only a new Pod may not have.
fn check_new(pod: &Place<'_>, errors: &mut Errors) {
    let spec = pod.at("spec");
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral, "cannot be set on create");
    }
    if !spec.at("nodeName").is_empty() && !spec.at("schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(&spec.at("nodeName"), detail);
    }
}

/// Checks a template of Pods: labels, annotations and spec (upstream:
/// `ValidatePodTemplateSpec`).
pub(super) fn check_template(template: &Place<'_>, errors: &mut Errors) {
    check::labels(&template.down("metadata.labels"), errors);
    check::annotations(&template.down("metadata.annotations"), errors);
    check_annotations(template, errors);
    let spec = template.at("spec");
    spec::check(&spec, Whose::Template, errors);
    let ephemeral = spec.at("ephemeralContainers");
    if !ephemeral.is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(&ephemeral, detail);
    }
}

/// Checks an update of a Pod's ephemeral containers.
pub(crate) fn check_ephemeral(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let pod = Place::root(new);
    check_whole(&pod, &mut errors);
    update::check_ephemeral(&pod, &Place::root(old), &mut errors);
    errors
}

/// Checks an update of the resources of a Pod's containers.
pub(crate) fn check_resize(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let pod = Place::root(new);
    check_whole(&pod, &mut errors);
    resize::check(&pod, &Place::root(old), &mut errors);
    errors
}

#[cfg(test)]
mod tests;
