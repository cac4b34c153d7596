//! Machine: checks changes of the resources of a running Pod's containers.

use serde_json::{Map, Value};

use crate::fields::field_path::{Errors, FieldPath};

use super::resources;
use super::update::meant;

/// Checks an update of resources (upstream: `ValidatePodResize`).
pub(super) fn check(new: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let (after, before) = (new.at("spec"), old.at("spec"));
    let whole = FieldPath::new("[]", &Value::Null);
    if before.down("os.name").text() == "windows" {
        *errors = Errors::default();
        errors.forbidden(&whole, "windows pods cannot be resized");
        return;
    }
    let class = old.down("status.qosClass");
    if resources::quality(after.value()) != resources::quality(before.value()) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid_as(&after, class.value(), detail);
    }
    let sidecar = |container: &FieldPath<'_>| container.at("restartPolicy").text() == "Always";
    for field in ["initContainers", "containers"] {
        let pairs = after.at(field).items().zip(before.at(field).items());
        for (after, before) in pairs {
            if field == "containers" || sidecar(&before) {
                check_container(&after, &before, errors);
            }
        }
    }
    for (field, detail) in [
        ("containers", "only cpu and memory resources are mutable"),
        (
            "initContainers",
            "only cpu and memory resources for sidecar containers are mutable",
        ),
    ] {
        let pairs = after.at(field).items().zip(before.at(field).items());
        for (new, old) in pairs {
            if field == "initContainers" && !sidecar(&old) {
                if meant(new.value()) != meant(old.value()) {
                    let detail = "resources for non-sidecar init containers are immutable";
                    errors.forbidden(&after, detail);
                }
            } else if meant(&without_mutable(&new, &old)) != meant(old.value()) {
                errors.forbidden(&after, detail);
            }
        }
    }
}

/// Returns the new container with the old amounts of cpu and memory.
fn without_mutable(new: &FieldPath<'_>, old: &FieldPath<'_>) -> Value {
    let mut container = new.value().clone();
    let mut kept = Map::new();
    for part in ["limits", "requests"] {
        let before = old.at("resources").at(part);
        if !before.is_set() {
            continue;
        }
        let after = new.at("resources").at(part);
        let mut list = after.value().as_object().cloned().unwrap_or_default();
        for name in ["cpu", "memory"] {
            list.remove(name);
            if before.at(name).is_set() {
                list.insert(name.to_owned(), before.at(name).value().clone());
            }
        }
        kept.insert(part.to_owned(), Value::Object(list));
    }
    if let Some(fields) = container.as_object_mut() {
        fields.insert("resources".to_owned(), Value::Object(kept));
        if old.at("resizePolicy").is_set() {
            fields.insert(
                "resizePolicy".to_owned(),
                old.at("resizePolicy").value().clone(),
            );
        } else {
            fields.remove("resizePolicy");
        }
    }
    container
}

/// Checks one container (upstream: `validateContainerResize`).
fn check_container(new: &FieldPath<'_>, old: &FieldPath<'_>, errors: &mut Errors) {
    let (after, before) = (new.at("resources"), old.at("resources"));
    for part in ["requests", "limits"] {
        let list = after.at(part);
        if before
            .at(part)
            .entries()
            .any(|(name, _)| !list.at(name).is_set())
        {
            errors.forbidden(&list, &format!("resource {part} cannot be removed"));
        }
    }
}
