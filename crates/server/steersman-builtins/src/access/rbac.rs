//! Machine: roles and their bindings (upstream: `pkg/apis/rbac/validation`).

use serde_json::{Value, json};
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::status::FieldError;

use crate::Strategy;
use crate::fields::check;
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::fill::{list, part, set_text};
use crate::fields::reference;
use crate::fields::selector;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) const ROLE: Strategy = Strategy {
    validate: |object, old| {
        repeated(old, || {
            let mut errors = Errors::default();
            rules(object, true, &mut errors);
            errors
        })
    },
    ..Strategy::PLAIN
};

pub(crate) const CLUSTER_ROLE: Strategy = Strategy {
    validate: |object, old| repeated(old, || cluster_role(object)),
    ..Strategy::PLAIN
};

fn cluster_role(object: &Value) -> Errors {
    let mut errors = Errors::default();
    rules(object, false, &mut errors);
    let aggregation = FieldPath::root(object).at("aggregationRule");
    let selectors = aggregation.at("clusterRoleSelectors");
    if aggregation.is_set() && selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required(&selectors, detail);
    }
    for one in selectors.items() {
        selector::check(&one, &mut errors);
    }
    errors
}

/// Returns the errors of a check, twice for an update. Upstream's strategies of this group check an
/// update as a new object, and then as an update, which checks the new object again.
fn repeated(old: Option<&Value>, check: impl Fn() -> Errors) -> Errors {
    let mut errors = check();
    if old.is_some() {
        errors.extend(check());
    }
    errors
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

fn rules(object: &Value, namespaced: bool, errors: &mut Errors) {
    for rule in FieldPath::root(object).at("rules").items() {
        let verbs = rule.at("verbs");
        if verbs.is_empty() {
            errors.required(&verbs, "verbs must contain at least one value");
        }
        let (groups, resources, names) = (
            rule.at("apiGroups"),
            rule.at("resources"),
            rule.at("resourceNames"),
        );
        let paths = rule.at("nonResourceURLs");
        if !paths.is_empty() {
            if namespaced {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.invalid(&paths, detail);
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&paths, detail);
            }
            continue;
        }
        if groups.is_empty() {
            let detail = "resource rules must supply at least one api group";
            errors.required(&groups, detail);
        }
        if resources.is_empty() {
            let detail = "resource rules must supply at least one resource";
            errors.required(&resources, detail);
        }
    }
}

fn binding(object: &Value, old: Option<&Value>, namespaced: bool) -> Errors {
    let mut errors = repeated(old, || new_binding(object, namespaced));
    let reference = FieldPath::root(object).at("roleRef");
    if let Some(old) = old.map(|old| &old["roleRef"])
        && old != reference.value()
    {
        let text = |name: &str| json!(reference.at(name).text());
        let shown = format!(
            "{{\"APIGroup\":{},\"Kind\":{},\"Name\":{}}}",
            text("apiGroup"),
            text("kind"),
            text("name")
        );
        let error = FieldError::invalid("roleRef", &shown, "cannot change roleRef");
        errors.push(error);
    }
    errors
}

fn new_binding(object: &Value, namespaced: bool) -> Errors {
    let mut errors = Errors::default();
    let root = FieldPath::root(object);
    let reference = root.at("roleRef");
    check::one_of(&reference.at("apiGroup"), &[GROUP], &mut errors);
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    check::one_of(&reference.at("kind"), kinds, &mut errors);
    reference::segment(&reference.at("name"), &mut errors);
    for subject in root.at("subjects").items() {
        check_subject(&subject, namespaced, &mut errors);
    }
    errors
}

fn check_subject(subject: &FieldPath<'_>, namespaced: bool, errors: &mut Errors) {
    let (name, group) = (subject.at("name"), subject.at("apiGroup"));
    if name.is_empty() {
        errors.required(&name, "");
    }
    match subject.at("kind").text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                check::name(NameRule::Subdomain, &name, errors);
            }
            if !group.is_empty() {
                errors.not_supported(&group, &[""]);
            }
            let namespace = subject.at("namespace");
            if !namespaced && namespace.is_empty() {
                errors.required(&namespace, "");
            }
        }
        kind @ ("User" | "Group") => {
            if name.is_empty() {
                let detail = format!("{} name cannot be empty", kind.to_lowercase());
                errors.invalid_text(&name, &detail);
            }
            check::one_of(&group, &[GROUP], errors);
        }
        _ => errors.not_supported(&subject.at("kind"), &["ServiceAccount", "User", "Group"]),
    }
}
