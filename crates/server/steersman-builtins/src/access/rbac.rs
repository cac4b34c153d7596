//! Machine: roles and their bindings (upstream: `pkg/apis/rbac/validation`).

use serde_json::Value;

use crate::Strategy;
use crate::fields::fill::{list, part, set_text};
use crate::fields::go_value::GoType::{self, Struct, Text};
use crate::fields::{FieldPath, check, reference, selector};

const ROLE_REFERENCE: GoType = Struct(&[("apiGroup", Text), ("kind", Text), ("name", Text)]);
const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) const ROLE: Strategy = Strategy {
    validate: |object, old| repeated(old, || rules(object, true)),
    ..Strategy::PLAIN
};

pub(crate) const CLUSTER_ROLE: Strategy = Strategy {
    validate: |object, old| repeated(old, || cluster_role(object)),
    ..Strategy::PLAIN
};

fn cluster_role(object: &FieldPath<'_>) {
    rules(object, false);
    let aggregation = object.at("aggregationRule");
    let selectors = aggregation.at("clusterRoleSelectors");
    if aggregation.is_set() && selectors.is_empty() {
        selectors
            .required("at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    selectors.each(selector::check);
}

/// Runs a check, twice for an update: upstream checks it as a new object, too.
fn repeated(old: Option<&Value>, check: impl Fn()) {
    check();
    if old.is_some() {
        check();
    }
}

pub(crate) const ROLE_BINDING: Strategy = Strategy {
    defaults,
    validate: |object, old| binding(object, old, true),
    ..Strategy::PLAIN
};

pub(crate) const CLUSTER_ROLE_BINDING: Strategy = Strategy {
    defaults,
    validate: |object, old| binding(object, old, false),
    ..Strategy::PLAIN
};

fn defaults(object: &mut Value) {
    if let Some(reference) = part(object, "roleRef") {
        set_text(reference, "apiGroup", GROUP);
        for name in ["kind", "name"] {
            set_text(reference, name, "");
        }
    }
    for subject in list(object, "subjects") {
        if subject["kind"] == "User" || subject["kind"] == "Group" {
            set_text(subject, "apiGroup", GROUP);
        }
    }
}

fn rules(object: &FieldPath<'_>, namespaced: bool) {
    for rule in object.at("rules").items() {
        let verbs = rule.at("verbs");
        verbs.need("verbs must contain at least one value");
        let [groups, resources, names] = rule.parts(["apiGroups", "resources", "resourceNames"]);
        let paths = rule.at("nonResourceURLs");
        if !paths.is_empty() {
            if namespaced {
                paths.invalid("namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                paths.invalid("rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        groups.need("resource rules must supply at least one api group");
        resources.need("resource rules must supply at least one resource");
    }
}

fn binding(object: &FieldPath<'_>, old: Option<&Value>, namespaced: bool) {
    repeated(old, || new_binding(object, namespaced));
    let reference = object.at("roleRef");
    if let Some(old) = old.map(|old| &old["roleRef"])
        && old != reference.value()
    {
        reference.invalid_printed(&ROLE_REFERENCE, "cannot change roleRef");
    }
}

fn new_binding(root: &FieldPath<'_>, namespaced: bool) {
    let reference = root.at("roleRef");
    check::one_of(&reference.at("apiGroup"), &[GROUP]);
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    check::one_of(&reference.at("kind"), kinds);
    reference::segment(&reference.at("name"));
    let subjects = root.at("subjects");
    subjects.each(|subject| check_subject(subject, namespaced));
}

fn check_subject(subject: &FieldPath<'_>, namespaced: bool) {
    let [name, group, kind] = subject.parts(["name", "apiGroup", "kind"]);
    name.need("");
    match kind.text() {
        "ServiceAccount" => {
            name.if_filled(check::subdomain);
            group.if_filled(|group| group.not_supported(&[""]));
            if !namespaced {
                subject.at("namespace").need("");
            }
        }
        kind @ ("User" | "Group") => {
            if name.is_empty() {
                name.invalid_text(&format!("{} name cannot be empty", kind.to_lowercase()));
            }
            check::one_of(&group, &[GROUP]);
        }
        _ => kind.not_supported(&["ServiceAccount", "User", "Group"]),
    }
}
