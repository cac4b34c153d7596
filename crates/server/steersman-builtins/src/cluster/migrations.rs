//! Machine: StorageVersionMigrations (upstream: `pkg/apis/storagemigration/validation`).

use serde_json::Value;
use steersman_apimachinery::names::{NameRule, check_name};

use crate::Strategy;
use crate::fields::check::{self, IMMUTABLE};
use crate::fields::field_path::{Errors, FieldPath};
use crate::fields::go_value::GoType::{self, Struct, Text};

pub(crate) const STORAGE_VERSION_MIGRATION: Strategy = Strategy {
    validate: migration,
    validate_status: migration_status,
    ..Strategy::PLAIN
};

/// The spec, as Go prints it.
const SPEC: GoType = Struct(&[(
    "Resource",
    "resource",
    Struct(&[("group", "group", Text), ("resource", "resource", Text)]),
)]);

fn migration(object: &Value, old: Option<&Value>) -> Errors {
    let mut errors = Errors::default();
    let spec = FieldPath::root(object).at("spec");
    let (group, resource) = (spec.down("resource.group"), spec.down("resource.resource"));
    if resource.is_empty() {
        errors.required(&resource, "resource is required to be set");
    } else {
        let wrong = check_name(NameRule::Label1035, resource.text());
        if !wrong.is_empty() {
            errors.invalid_text(&resource, &wrong.join(","));
        }
    }
    if !group.is_empty() {
        let wrong = check_name(NameRule::Subdomain, group.text());
        if !wrong.is_empty() {
            errors.invalid_text(&group, &wrong.join(","));
        }
    }
    if let Some(old) = old {
        check::immutable_struct(&spec, &old["spec"], &SPEC, &mut errors);
    }
    errors
}

/// Checks a write to the status. Conditions that end a migration are final.
fn migration_status(object: &Value, old: &Value) -> Errors {
    let mut errors = Errors::default();
    let status = FieldPath::root(object).at("status");
    let (version, conditions) = (status.at("resourceVersion"), status.at("conditions"));
    let text = version.text();
    let is_well_formed = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_well_formed {
        let detail = format!("resource version is not well formed: {text}");
        errors.invalid_text(&version, &detail);
    }
    check::conditions(&conditions, &mut errors);
    let old_version = old["status"]["resourceVersion"]
        .as_str()
        .unwrap_or_default();
    if !old_version.is_empty() && old_version != text {
        errors.invalid_text(&version, IMMUTABLE);
    }
    let holds = |object: &Value, kind: &str| {
        let all = object["status"]["conditions"].as_array();
        let mut all = all.into_iter().flatten();
        all.any(|one| one["type"] == kind && one["status"] == "True")
    };
    if holds(object, "Succeeded") && holds(object, "Failed") {
        let detail = "Both success and failed conditions cannot be true at the same time";
        errors.invalid(&conditions, detail);
    }
    for (kind, said) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if holds(old, kind) && !holds(object, kind) {
            let detail = format!("{said} condition cannot be set to false once it is true");
            errors.invalid(&conditions, &detail);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the errors as `field: message`.
    fn said(errors: Errors) -> Vec<String> {
        let errors: Vec<steersman_apimachinery::status::FieldError> = errors.into();
        let said = errors.into_iter();
        said.map(|error| format!("{}: {}", error.field, error.message))
            .collect()
    }

    fn of_resource(group: &str, resource: &str) -> Value {
        json!({"metadata": {"name": "m"}, "spec": {"resource": {"group": group, "resource": resource}}})
    }

    fn with_status(version: &str, conditions: &[(&str, &str)]) -> Value {
        let conditions = conditions.iter().map(|(kind, status)| {
            json!({"type": kind, "status": status, "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-02T03:04:05Z"})
        });
        let conditions: Vec<Value> = conditions.collect();
        json!({"status": {"resourceVersion": version, "conditions": conditions}})
    }

    #[test]
    fn a_migration_names_a_resource_that_may_not_change() {
        let good = of_resource("example.com", "websites");
        assert!(said(migration(&good, None)).is_empty());
        assert!(said(migration(&of_resource("", "secrets"), None)).is_empty());
        assert_eq!(
            said(migration(&of_resource("example.com", ""), None)),
            ["spec.resource.resource: Required value: resource is required to be set"]
        );
        let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        assert_eq!(
            said(migration(&of_resource("example.com", "."), None)),
            [format!(
                "spec.resource.resource: Invalid value: \".\": {label}"
            )]
        );
        let wrong = said(migration(&of_resource("-", "websites"), None));
        assert!(wrong[0].starts_with(
            "spec.resource.group: Invalid value: \"-\": a lowercase RFC 1123 subdomain"
        ));
        assert_eq!(
            said(migration(
                &of_resource("example.com", "others"),
                Some(&good)
            )),
            [
                "spec: Invalid value: {\"Resource\":{\"group\":\"example.com\",\"resource\":\"others\"}}: field is immutable"
            ]
        );
    }

    #[test]
    fn a_migration_that_ended_stays_ended() {
        let running = with_status("7", &[("Running", "True")]);
        let ended = with_status("7", &[("Running", "False"), ("Succeeded", "True")]);
        let failed = with_status("7", &[("Running", "True"), ("Failed", "True")]);
        let waiting = with_status("", &[("Running", "True")]);
        for (new, old) in [
            (&waiting, &json!({})),
            (&running, &waiting),
            (&ended, &running),
            (&failed, &running),
            (&failed, &failed),
        ] {
            assert_eq!(said(migration_status(new, old)), Vec::<String>::new());
        }
        let details = |new: &Value, old: &Value| -> Vec<String> {
            let all = said(migration_status(new, old)).into_iter();
            all.map(|one| one.rsplit(": ").next().unwrap_or_default().to_owned())
                .collect()
        };
        for (new, old, detail) in [
            (with_status("8", &[]), &running, "field is immutable"),
            (with_status("abc", &[]), &json!({}), "abc"),
            (with_status("07", &[]), &json!({}), "07"),
            (
                with_status("7", &[("Succeeded", "True"), ("Failed", "True")]),
                &running,
                "Both success and failed conditions cannot be true at the same time",
            ),
            (
                with_status("7", &[("Succeeded", "False")]),
                &ended,
                "Success condition cannot be set to false once it is true",
            ),
            (
                with_status("7", &[]),
                &failed,
                "Failed condition cannot be set to false once it is true",
            ),
        ] {
            assert_eq!(details(&new, old), [detail]);
        }
    }
}
