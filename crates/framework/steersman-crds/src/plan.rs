//! Machine: decides whether a definition is written, kept as it is, or refused.

use serde_json::Value;
use steersman_object::{json_items, json_text};

use crate::crd::{INJECT_CA_FROM, MANAGER_SUFFIX};
use crate::difference::{CrdDifference, differences};
use crate::narrowing::compare_definitions;
use crate::normal_form::{has_all, normalized};
use crate::release_history::ReleaseHistory;
use crate::schema_narrowing::Narrowing;
use crate::version_difference::{name, stored_version};

impl CrdDifference {
    /// Compares the definition on the server with that of an operator.
    ///
    /// ```
    /// use serde_json::json;
    /// use steersman_crds::CrdDifference;
    ///
    /// let wanted = json!({"spec": {"scope": "Namespaced", "versions": [{"name": "v1", "served": true}]}});
    /// let difference = CrdDifference::between(Some(&wanted), &wanted);
    /// assert_eq!(difference, CrdDifference::Equal);
    /// ```
    #[must_use]
    pub fn between(present: Option<&Value>, wanted: &Value) -> Self {
        plan(present, wanted, &[])
    }
}

/// Decides about a definition. `accepted` has the paths that may accept less.
pub(crate) fn plan(present: Option<&Value>, wanted: &Value, accepted: &[String]) -> CrdDifference {
    let Some(present) = present else {
        return CrdDifference::Missing;
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
            true => CrdDifference::Equal,
            false => CrdDifference::Outdated(differences(present, wanted)),
        };
    }
    let stored_name = |definition| stored_version(definition).map(name);
    let is_stored_as_wanted = stored_name(present) == stored_name(wanted);
    if is_stored_as_wanted && lost.iter().all(|one| one.is_stored_version) {
        return CrdDifference::ToMigrate(texts());
    }
    // DEF-2: a definition that accepts more, or was installed later, is kept.
    if comparison.gained.is_empty() || ReleaseHistory::read(present).is_former(wanted) {
        return CrdDifference::Later(texts());
    }
    CrdDifference::Refused(texts())
}

/// Returns whether the operator accepts this narrowing: `accepted` has its path or a path above it.
fn is_accepted(narrowing: &Narrowing, accepted: &[String]) -> bool {
    let below = |path: &String| {
        let rest = narrowing.path.strip_prefix(path.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    };
    // DEF-1: a removed stored version is never accepted, because its objects could not be read.
    !narrowing.is_stored_version && accepted.iter().any(below)
}

/// Returns whether the server has the wanted definition. The versions must be equal, because a removed rule is a
/// change. Elsewhere the server may have more, such as defaults and labels of other writers.
fn is_installed(present: &Value, wanted: &Value) -> bool {
    let versions = |definition: &Value| normalized(&definition["spec"]["versions"]);
    versions(present) == versions(wanted)
        && has_all(present, wanted)
        && !has_former_injector(present, wanted)
}

/// Returns whether the operator has set cert-manager's annotation at an earlier start and does not want it now:
/// cert-manager would replace the authority again. The next apply removes the annotation, unless another field manager
/// owns it (CERT-7).
fn has_former_injector(present: &Value, wanted: &Value) -> bool {
    if !wanted["metadata"]["annotations"][INJECT_CA_FROM].is_null() {
        return false;
    }
    json_items(&present["metadata"]["managedFields"]).any(|entry| {
        let manager = json_text(&entry["manager"]);
        let annotations = &entry["fieldsV1"]["f:metadata"]["f:annotations"];
        let is_set = annotations[format!("f:{INJECT_CA_FROM}")].is_object();
        is_set && entry["operation"] == "Apply" && manager.ends_with(MANAGER_SUFFIX)
    })
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

    fn is_update(found: &CrdDifference) -> bool {
        matches!(found, CrdDifference::Outdated(_))
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
        assert_eq!(plan(Some(&present), &wanted, &[]), CrdDifference::Equal);
        present["metadata"]["labels"] = Value::Null;
        let mut labelled = wanted.clone();
        labelled["metadata"]["labels"] = json!({"app": "sites"});
        assert!(is_update(&plan(Some(&present), &labelled, &[])));
        assert_eq!(plan(None, &wanted, &[]), CrdDifference::Missing);
    }

    #[test]
    fn an_injector_of_an_earlier_start_is_removed_and_that_of_others_stays() {
        let wanted = definition(&record(&json!({})));
        let mut injected = wanted.clone();
        injected["metadata"]["annotations"] = json!({INJECT_CA_FROM: "shop/hooks"});
        let mut present = injected.clone();
        let fields = json!({"f:metadata": {"f:annotations": {format!("f:{INJECT_CA_FROM}"): {}}}});
        for (manager, is_removed) in [("shop/definitions", true), ("kubectl", false)] {
            present["metadata"]["managedFields"] =
                json!([{"manager": manager, "operation": "Apply", "fieldsV1": fields}]);
            let found = plan(Some(&present), &wanted, &[]);
            assert_eq!(is_update(&found), is_removed, "{manager}");
            assert_eq!(plan(Some(&present), &injected, &[]), CrdDifference::Equal);
        }
    }

    #[test]
    fn a_removed_rule_is_an_update() {
        let present = definition(&record(&json!({"a": {"type": "string", "maxLength": 3}})));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert!(is_update(&plan(Some(&present), &wanted, &[])));
    }

    /// DEF-1: no write of a definition may lose a field or a stored version.
    #[test]
    fn a_definition_that_accepts_less_and_more_is_refused_with_each_field() {
        let present = definition(&record(&json!({
            "a": {"type": "string"}, "b": {"type": "string"},
        })));
        let wanted = definition(&record(&json!({
            "a": {"type": "string", "maxLength": 3}, "c": {"type": "string"},
        })));
        let CrdDifference::Refused(problems) = plan(Some(&present), &wanted, &[]) else {
            panic!("not refused");
        };
        assert!(problems[0].starts_with("v1.a: ") && problems[1].starts_with("v1.b: "));
        let accepted = ["v1.a".to_owned(), "v1.b".to_owned()];
        assert!(is_update(&plan(Some(&present), &wanted, &accepted)));
        let other = ["v1.a".to_owned(), "v1.bb".to_owned()];
        assert!(
            matches!(plan(Some(&present), &wanted, &other), CrdDifference::Refused(left) if left.len() == 1)
        );
        assert!(is_update(&plan(
            Some(&present),
            &wanted,
            &["v1".to_owned()]
        )));
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
        assert!(is_update(&plan(Some(&without), &no, &[])));
        assert!(is_update(&plan(Some(&no), &without, &[])));
        assert!(is_update(&plan(Some(&without), &empty, &[])));
        let bound = |maximum: i64| {
            definition(&record(
                &json!({"a": {"type": "integer", "maximum": maximum}}),
            ))
        };
        let (lower, higher) = (bound(9_007_199_254_740_992), bound(9_007_199_254_740_993));
        assert_ne!(plan(Some(&lower), &higher, &[]), CrdDifference::Equal);
    }

    /// DEF-1: no write of a definition may lose a field or a stored version.
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
            CrdDifference::ToMigrate(_)
        ));
        present["status"]["storedVersions"] = json!(["v1"]);
        assert!(is_update(&plan(Some(&present), &wanted, &[])));
        // Only the release in between stores objects in another version.
        present["spec"]["versions"] = json!([version("v1alpha1", true)]);
        present["status"]["storedVersions"] = json!(["v1alpha1"]);
        assert!(matches!(
            plan(Some(&present), &wanted, &[]),
            CrdDifference::Refused(_)
        ));
    }

    /// DEF-2: a definition of a later release stays as it is.
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
            CrdDifference::Refused(_)
        ));
        let mut history = ReleaseHistory::default();
        history.add(&first);
        history.add(&second);
        history.write(&mut second);
        assert!(matches!(
            plan(Some(&second), &first, &[]),
            CrdDifference::Later(_)
        ));
        let third = definition(&record(&json!({"d": {"type": "string"}})));
        assert!(matches!(
            plan(Some(&second), &third, &[]),
            CrdDifference::Refused(_)
        ));
    }

    /// DEF-2: a definition of a later release stays as it is.
    #[test]
    fn the_definition_of_a_later_release_is_kept() {
        let present = definition(&record(
            &json!({"a": {"type": "string"}, "b": {"type": "string"}}),
        ));
        let wanted = definition(&record(&json!({"a": {"type": "string"}})));
        assert!(
            matches!(plan(Some(&present), &wanted, &[]), CrdDifference::Later(lost) if lost.len() == 1)
        );
    }
}
