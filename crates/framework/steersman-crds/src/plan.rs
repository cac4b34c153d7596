//! Machine: decides whether a definition is written, left as it is, or refused.

use serde_json::Value;

use crate::crd::{INJECT_CA_FROM, MANAGER_SUFFIX};
use crate::narrowing::compare_definitions;
use crate::normal_form::normalized;
use crate::release_history::ReleaseHistory;
use crate::schema_narrowing::Narrowing;

/// What to do about a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InstallPlan {
    /// The server has no definition of this name.
    Create,
    /// The definition on the server differs, and the wanted one accepts all that it accepts.
    Update,
    /// The definition on the server is the wanted one.
    Unchanged,
    /// The definition on the server is that of a later release: it accepts all that the wanted one accepts, and more,
    /// or it was installed after the wanted one. Each text is a field with a difference.
    Keep(Vec<String>),
    /// Objects have to leave the versions that the wanted definition lacks, and then it is compared again. Each text is
    /// such a version.
    MigrateFirst(Vec<String>),
    /// Neither definition accepts all that the other accepts. Each text is a field that would accept less.
    Refuse(Vec<String>),
}

/// Decides about a definition. `accepted` has the fields that may accept less.
pub(crate) fn plan(present: Option<&Value>, wanted: &Value, accepted: &[String]) -> InstallPlan {
    let Some(present) = present else {
        return InstallPlan::Create;
    };
    let comparison = compare_definitions(present, wanted);
    let lost = comparison.lost.iter();
    let lost: Vec<&Narrowing> = lost.filter(|one| !is_accepted(one, accepted)).collect();
    let texts = || -> Vec<String> {
        let text = |one: &&Narrowing| format!("{}: {}", one.path, one.problem);
        lost.iter().map(text).collect()
    };
    if lost.is_empty() {
        return match is_installed(present, wanted) {
            true => InstallPlan::Unchanged,
            false => InstallPlan::Update,
        };
    }
    let is_stored_as_wanted = stored_version(present) == stored_version(wanted);
    if is_stored_as_wanted && lost.iter().all(|one| one.is_stored_version) {
        return InstallPlan::MigrateFirst(texts());
    }
    // DEF-2
    if comparison.gained.is_empty() || ReleaseHistory::read(present).is_former(wanted) {
        return InstallPlan::Keep(texts());
    }
    InstallPlan::Refuse(texts())
}

/// Returns the version in which a definition stores objects.
fn stored_version(definition: &Value) -> Option<&str> {
    let versions = definition["spec"]["versions"].as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true)?;
    stored["name"].as_str()
}

/// Returns whether a path that the operator accepts is that of the narrowing, or above it.
fn is_accepted(narrowing: &Narrowing, accepted: &[String]) -> bool {
    let below = |path: &String| {
        let rest = narrowing.path.strip_prefix(path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    // DEF-1: objects in a removed version could not be read any more.
    !narrowing.is_stored_version && accepted.iter().any(below)
}

/// Returns whether the definition on the server is the wanted one. The versions have to be equal, because a removed
/// rule is a change; elsewhere the server may have added defaults and other writers may have added labels.
fn is_installed(present: &Value, wanted: &Value) -> bool {
    let versions = |definition: &Value| normalized(&definition["spec"]["versions"]);
    versions(present) == versions(wanted)
        && has_all(present, wanted)
        && !has_former_injector(present, wanted)
}

/// Returns whether an earlier start of the operator let cert-manager inject the authority of the conversion webhook,
/// and this one does not: cert-manager would go on to replace the authority. The next apply removes the annotation,
/// because the field manager of the definitions owns it. An annotation of another manager stays (CERT-7).
fn has_former_injector(present: &Value, wanted: &Value) -> bool {
    if !wanted["metadata"]["annotations"][INJECT_CA_FROM].is_null() {
        return false;
    }
    let managers = present["metadata"]["managedFields"].as_array();
    managers.into_iter().flatten().any(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let annotations = &entry["fieldsV1"]["f:metadata"]["f:annotations"];
        let is_set = annotations[format!("f:{INJECT_CA_FROM}")].is_object();
        is_set && entry["operation"] == "Apply" && manager.ends_with(MANAGER_SUFFIX)
    })
}

/// Returns whether `present` has every member of `wanted`.
pub(crate) fn has_all(present: &Value, wanted: &Value) -> bool {
    match (present, wanted) {
        (_, Value::Null | Value::Bool(false)) if present.is_null() => true,
        (Value::Object(present), Value::Object(wanted)) => wanted
            .iter()
            .all(|(name, wanted)| has_all(present.get(name).unwrap_or(&Value::Null), wanted)),
        (Value::Array(present), Value::Array(wanted)) => {
            present.len() == wanted.len()
                && present
                    .iter()
                    .zip(wanted)
                    .all(|(one, other)| has_all(one, other))
        }
        (present, Value::Array(wanted)) => present.is_null() && wanted.is_empty(),
        (present, wanted) => normalized(present) == normalized(wanted),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn definition(schema: &Value) -> Value {
        json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"group": "example.com", "names": {"plural": "sites", "kind": "Site"}, "versions": [
                {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        })
    }

    fn record(fields: &Value) -> Value {
        json!({"type": "object", "properties": fields})
    }

    #[test]
    fn what_the_server_adds_is_no_difference() {
        let wanted = definition(&record(&json!({"a": {"type": "integer", "minimum": 1}})));
        let mut present = wanted.clone();
        present["metadata"]["labels"] = json!({"by": "hand"});
        present["metadata"]["resourceVersion"] = json!("7");
        present["spec"]["conversion"] = json!({"strategy": "None"});
        present["spec"]["names"]["listKind"] = json!("SiteList");
        present["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"]["minimum"] =
            json!(1.0);
        present["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
        assert_eq!(plan(Some(&present), &wanted, &[]), InstallPlan::Unchanged);
        present["metadata"]["labels"] = Value::Null;
        let mut labelled = wanted.clone();
        labelled["metadata"]["labels"] = json!({"app": "sites"});
        assert_eq!(plan(Some(&present), &labelled, &[]), InstallPlan::Update);
        assert_eq!(plan(None, &wanted, &[]), InstallPlan::Create);
    }

    #[test]
    fn an_injector_of_an_earlier_start_is_removed_and_that_of_others_stays() {
        let wanted = definition(&record(&json!({})));
        let mut injected = wanted.clone();
        injected["metadata"]["annotations"] = json!({INJECT_CA_FROM: "shop/hooks"});
        let mut present = injected.clone();
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:{INJECT_CA_FROM}"): {}}}});
        for (manager, expected) in [
            ("shop/definitions", InstallPlan::Update),
            ("kubectl", InstallPlan::Unchanged),
        ] {
            present["metadata"]["managedFields"] =
                json!([{"manager": manager, "operation": "Apply", "fieldsV1": fields}]);
            assert_eq!(plan(Some(&present), &wanted, &[]), expected, "{manager}");
            assert_eq!(plan(Some(&present), &injected, &[]), InstallPlan::Unchanged);
        }
    }

    #[test]
    fn a_removed_rule_is_an_update() {
        let present = definition(&record(&json!({"a": {"type": "string", "maxLength": 3}})));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert_eq!(plan(Some(&present), &wanted, &[]), InstallPlan::Update);
    }

    /// DEF-1
    #[test]
    fn a_definition_that_accepts_less_and_more_is_refused_with_each_field() {
        let present = definition(&record(&json!({
            "a": {"type": "string"}, "b": {"type": "string"},
        })));
        let wanted = definition(&record(&json!({
            "a": {"type": "string", "maxLength": 3}, "c": {"type": "string"},
        })));
        let InstallPlan::Refuse(problems) = plan(Some(&present), &wanted, &[]) else {
            panic!("not refused");
        };
        assert!(problems[0].starts_with("v1.a: ") && problems[1].starts_with("v1.b: "));
        let accepted = ["v1.a".to_owned(), "v1.b".to_owned()];
        assert_eq!(
            plan(Some(&present), &wanted, &accepted),
            InstallPlan::Update
        );
        let other = ["v1.a".to_owned(), "v1.bb".to_owned()];
        assert!(
            matches!(plan(Some(&present), &wanted, &other), InstallPlan::Refuse(left) if left.len() == 1)
        );
        assert_eq!(
            plan(Some(&present), &wanted, &["v1".to_owned()]),
            InstallPlan::Update
        );
    }

    #[test]
    fn defaults_and_large_numbers_are_compared_as_they_are() {
        let with_default = |value: &Value| {
            definition(&record(
                &json!({"a": {"type": "boolean", "default": value}}),
            ))
        };
        let without = definition(&record(&json!({"a": {"type": "boolean"}})));
        let (no, empty) = (with_default(&json!(false)), with_default(&json!([])));
        assert_eq!(plan(Some(&without), &no, &[]), InstallPlan::Update);
        assert_eq!(plan(Some(&no), &without, &[]), InstallPlan::Update);
        assert_eq!(plan(Some(&without), &empty, &[]), InstallPlan::Update);
        let bound = |maximum: i64| {
            definition(&record(
                &json!({"a": {"type": "integer", "maximum": maximum}}),
            ))
        };
        let (lower, higher) = (bound(9_007_199_254_740_992), bound(9_007_199_254_740_993));
        assert_ne!(plan(Some(&lower), &higher, &[]), InstallPlan::Unchanged);
    }

    /// DEF-1
    #[test]
    fn objects_leave_a_version_before_it_is_removed() {
        let version = |name: &str, stored: bool| {
            json!({"name": name, "served": true, "storage": stored, "schema": {"openAPIV3Schema": {
                "type": "object",
            }}})
        };
        let mut wanted = definition(&json!({}));
        wanted["spec"]["versions"] = json!([version("v1", true)]);
        let mut present = wanted.clone();
        present["spec"]["versions"] = json!([version("v1alpha1", false), version("v1", true)]);
        present["status"]["storedVersions"] = json!(["v1alpha1", "v1"]);
        let accepted = ["v1alpha1".to_owned()];
        assert!(matches!(
            plan(Some(&present), &wanted, &accepted),
            InstallPlan::MigrateFirst(_)
        ));
        present["status"]["storedVersions"] = json!(["v1"]);
        assert_eq!(plan(Some(&present), &wanted, &[]), InstallPlan::Update);
        // Only the release in between changes the version in which objects are stored.
        present["spec"]["versions"] = json!([version("v1alpha1", true)]);
        present["status"]["storedVersions"] = json!(["v1alpha1"]);
        assert!(matches!(
            plan(Some(&present), &wanted, &[]),
            InstallPlan::Refuse(_)
        ));
    }

    /// DEF-2
    #[test]
    fn a_rollback_behind_an_accepted_narrowing_keeps_the_later_definition() {
        let first = definition(&record(
            &json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        ));
        let mut second = definition(&record(
            &json!({"a": {"type": "string"}, "c": {"type": "string"}}),
        ));
        assert!(matches!(
            plan(Some(&second), &first, &[]),
            InstallPlan::Refuse(_)
        ));
        let mut history = ReleaseHistory::default();
        history.add(&first);
        history.add(&second);
        history.write(&mut second);
        assert!(matches!(
            plan(Some(&second), &first, &[]),
            InstallPlan::Keep(_)
        ));
        let third = definition(&record(&json!({"d": {"type": "string"}})));
        assert!(matches!(
            plan(Some(&second), &third, &[]),
            InstallPlan::Refuse(_)
        ));
    }

    /// DEF-2
    #[test]
    fn the_definition_of_a_later_release_is_kept() {
        let present = definition(&record(
            &json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        ));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert!(
            matches!(plan(Some(&present), &wanted, &[]), InstallPlan::Keep(lost) if lost.len() == 1)
        );
    }
}
