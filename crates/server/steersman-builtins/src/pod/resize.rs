//! Machine: checks changes of the resources of a running Pod's containers.

use serde_json::{Value, json};

use crate::fields::{FieldPath, fill};

use super::update::meant;
use super::{refuse_whole, resources};

/// Checks an update of resources (upstream: `ValidatePodResize`).
pub(super) fn check(new: &FieldPath<'_>, old: &FieldPath<'_>) {
    let (after, before) = (new.at("spec"), old.at("spec"));
    if before.down("os.name").text() == "windows" {
        refuse_whole(new, "windows pods cannot be resized");
        return;
    }
    let class = old.down("status.qosClass");
    if resources::quality(after.value()) != resources::quality(before.value()) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        after.invalid_as(class.value(), detail);
    }
    let sidecar = |container: &FieldPath<'_>| container.at("restartPolicy").text() == "Always";
    for field in ["initContainers", "containers"] {
        let pairs = after.at(field).items().zip(before.at(field).items());
        for (after, before) in pairs {
            if field == "containers" || sidecar(&before) {
                check_container(&after, &before);
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
                    after.forbidden("resources for non-sidecar init containers are immutable");
                }
            } else if meant(&without_mutable(&new, &old)) != meant(old.value()) {
                after.forbidden(detail);
            }
        }
    }
}

/// Returns the new container with the old amounts of cpu and memory.
fn without_mutable(new: &FieldPath<'_>, old: &FieldPath<'_>) -> Value {
    let mut container = new.value().clone();
    let mut kept = json!({});
    for part in ["limits", "requests"] {
        let before = &old.value()["resources"][part];
        if before.is_null() {
            continue;
        }
        let after = &new.value()["resources"][part];
        kept[part] = if after.is_object() {
            after.clone()
        } else {
            json!({})
        };
        for name in ["cpu", "memory"] {
            fill::copy(&mut kept[part], before, name);
        }
    }
    fill::put(&mut container, "resources", kept);
    fill::copy(&mut container, old.value(), "resizePolicy");
    container
}

/// Checks one container (upstream: `validateContainerResize`).
fn check_container(new: &FieldPath<'_>, old: &FieldPath<'_>) {
    for part in ["requests", "limits"] {
        let list = new.at("resources").at(part);
        let mut before = old.at("resources").at(part).entries();
        if before.any(|(name, _)| !list.at(name).is_set()) {
            list.forbidden(&format!("resource {part} cannot be removed"));
        }
    }
}
