//! Machine: StorageVersionMigrations (upstream: `pkg/apis/storagemigration/validation`).

use serde_json::Value;
use steersman_apimachinery::names::{NameRule, check_name};

use crate::Strategy;
use crate::fields::FieldPath;
use crate::fields::check::{self, IMMUTABLE};
use crate::fields::go_value::GoType::{self, Struct, Tagged, Text};

pub(crate) const MIGRATION: Strategy = Strategy {
    validate: migration,
    validate_status: migration_status,
    ..Strategy::PLAIN
};

const RESOURCE: GoType = Tagged(&[("group", Text), ("resource", Text)]);
const SPEC: GoType = Struct(&[("resource", RESOURCE)]);

fn migration(object: &FieldPath<'_>, old: Option<&Value>) {
    let spec = object.at("spec");
    let (group, resource) = (spec.down("resource.group"), spec.down("resource.resource"));
    let check_text = |at: &FieldPath<'_>, rule: NameRule| {
        at.if_filled(|at| at.invalid_joined(at.text(), &check_name(rule, at.text())));
    };
    resource.need("resource is required to be set");
    check_text(&resource, NameRule::Label1035);
    check_text(&group, NameRule::Subdomain);
    if let Some(old) = old {
        check::immutable_struct(&spec, &old["spec"], &SPEC);
    }
}

/// Checks a write to the status. Conditions that end a migration are final.
fn migration_status(object: &FieldPath<'_>, old: &Value) {
    let status = object.at("status");
    let (version, conditions) = (status.at("resourceVersion"), status.at("conditions"));
    let text = version.text();
    let is_well_formed = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_well_formed {
        version.invalid_text(&format!("resource version is not well formed: {text}"));
    }
    check::conditions(&conditions);
    let before = object.with(old).at("status");
    let old_version = before.at("resourceVersion");
    if !old_version.is_empty() && old_version.text() != text {
        version.invalid_text(IMMUTABLE);
    }
    if check::holds(&status, "Succeeded") && check::holds(&status, "Failed") {
        conditions.invalid("Both success and failed conditions cannot be true at the same time");
    }
    for (kind, said) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if check::holds(&before, kind) && !check::holds(&status, kind) {
            let detail = format!("{said} condition cannot be set to false once it is true");
            conditions.invalid(&detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::Findings;

    /// Returns the errors of a check as `field: message`.
    fn said(object: &Value, check: impl FnOnce(&FieldPath<'_>)) -> Vec<String> {
        let said = Findings::errors(object, check).into_iter();
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
        assert!(said(&good, |root| migration(root, None)).is_empty());
        assert!(said(&of_resource("", "secrets"), |root| migration(root, None)).is_empty());
        assert_eq!(
            said(&of_resource("example.com", ""), |root| migration(
                root, None
            )),
            ["spec.resource.resource: Required value: resource is required to be set"]
        );
        let label = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
        assert_eq!(
            said(&of_resource("example.com", "."), |root| migration(
                root, None
            )),
            [format!(
                "spec.resource.resource: Invalid value: \".\": {label}"
            )]
        );
        let wrong = said(&of_resource("-", "websites"), |root| migration(root, None));
        assert!(wrong[0].starts_with(
            "spec.resource.group: Invalid value: \"-\": a lowercase RFC 1123 subdomain"
        ));
        assert_eq!(
            said(&of_resource("example.com", "others"), |root| migration(
                root,
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
            assert_eq!(
                said(new, |root| migration_status(root, old)),
                Vec::<String>::new()
            );
        }
        let details = |new: &Value, old: &Value| -> Vec<String> {
            let all = said(new, |root| migration_status(root, old)).into_iter();
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
