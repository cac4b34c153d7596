//! Machine: whether a definition on the server is the program's, and how far it is.

use serde_json::Value;
use steersman_crds::CrdDifference;

use crate::doctor::finding::{DoctorFinding, SeenFact};

/// The number of differences that are printed.
const SHOWN: usize = 10;
const INSTALL: &str = "the leader installs it with --install, which the generated Deployment has; or run `cargo steersman install`";
/// The flag `--install` alone never sets a conversion.
const CONVERT: &str = "run the operator with --install and with --webhook-bind-address, which the generated Deployment has: the leader \
     then sets the webhook; or run `cargo steersman install`. Fields that were dropped meanwhile are lost: compare the \
     objects with a backup";

/// Checks one definition of the program.
pub(crate) fn check_definition(
    wanted: &Value,
    seen: &SeenFact<Option<Value>>,
) -> Vec<DoctorFinding> {
    let name = wanted["metadata"]["name"].as_str().unwrap_or_default();
    let present = match seen {
        Ok(Some(present)) => present,
        Ok(None) => {
            return vec![DoctorFinding::problem(
                format!("{name} is missing"),
                INSTALL,
            )];
        }
        Err(unseen) => return vec![unseen.finding(name)],
    };
    let mut findings = Vec::new();
    findings.extend(conversion(name, wanted, present));
    findings.extend(difference(name, wanted, present, !findings.is_empty()));
    findings.extend(conditions(name, present));
    findings.extend(stored_versions(name, wanted, present));
    if findings.is_empty() {
        findings.push(DoctorFinding::good(format!(
            "{name} is that of the program"
        )));
    }
    findings
}

/// Finds a conversion webhook that is missing. (The versions of a program with one differ.)
fn conversion(name: &str, wanted: &Value, present: &Value) -> Option<DoctorFinding> {
    let strategy = |definition: &Value| definition["spec"]["conversion"]["strategy"].clone();
    if strategy(wanted) != "Webhook" || strategy(present) == "Webhook" {
        return None;
    }
    let text = format!(
        "{name} has several versions and no conversion webhook: objects are served in another version without being \
         converted"
    );
    Some(DoctorFinding::problem(text, CONVERT))
}

fn difference(
    name: &str,
    wanted: &Value,
    present: &Value,
    is_conversion_missing: bool,
) -> Option<DoctorFinding> {
    let with = |text: String, mut fields: Vec<String>, advice: &str| {
        // A missing conversion has a finding of its own.
        fields.retain(|field| !(is_conversion_missing && field.starts_with("spec.conversion:")));
        if fields.is_empty() {
            return None;
        }
        let rest = fields.len().saturating_sub(SHOWN);
        let mut finding = DoctorFinding::problem(text, advice);
        finding.advice.splice(
            0..0,
            fields
                .into_iter()
                .take(SHOWN)
                .map(|field| format!("- {field}")),
        );
        if rest > 0 {
            finding.advice.insert(SHOWN, format!("- and {rest} more"));
        }
        Some(finding)
    };
    match CrdDifference::between(Some(present), wanted) {
        CrdDifference::Outdated(fields) => with(
            format!("{name} differs from that of the program"),
            fields,
            INSTALL,
        ),
        CrdDifference::Later(fields) => {
            let mut finding = DoctorFinding::good(format!(
                "{name} is that of a later release, and the leader keeps it"
            ));
            finding.advice = fields
                .into_iter()
                .take(SHOWN)
                .map(|field| format!("- {field}"))
                .collect();
            Some(finding)
        }
        CrdDifference::ToMigrate(fields) => {
            let text =
                format!("{name} has versions that the program removes, with objects in them");
            let advice = "the leader migrates these objects before it installs the definition, with --install; `cargo \
                          steersman install` does not";
            with(text, fields, advice)
        }
        CrdDifference::Refused(fields) => {
            let text = format!(
                "{name} would accept less than now: the leader refuses to install it, unless the program accepts that"
            );
            let advice = "keep these fields, or name them with `Crd::accept_narrowing` if no object has them";
            with(text, fields, advice)
        }
        _ => None,
    }
}

/// Finds conditions that say that the server does not serve the definition.
fn conditions(name: &str, present: &Value) -> Vec<DoctorFinding> {
    let conditions = present["status"]["conditions"].as_array();
    let condition = |kind: &str| {
        let mut conditions = conditions.into_iter().flatten();
        conditions.find(|condition| condition["type"] == kind)
    };
    let message = |condition: Option<&Value>| {
        let message = condition.and_then(|condition| condition["message"].as_str());
        message
            .filter(|message| !message.is_empty())
            .map_or_else(String::new, |message| format!(": {message}"))
    };
    let mut findings = Vec::new();
    let holds = |condition: Option<&Value>| condition.is_some_and(|one| one["status"] == "True");
    let (accepted, established) = (condition("NamesAccepted"), condition("Established"));
    if !holds(accepted) {
        let text = format!("{name} is not NamesAccepted{}", message(accepted));
        let advice = "another definition of the group has one of its names: delete that one, or name the kind otherwise";
        findings.push(DoctorFinding::problem(text, advice));
    } else if !holds(established) {
        let text = format!("{name} is not Established{}", message(established));
        findings.push(DoctorFinding::problem(
            text,
            "the server establishes it within seconds; look at its log if not",
        ));
    }
    if !present["metadata"]["deletionTimestamp"].is_null() || holds(condition("Terminating")) {
        let text = format!("{name} is being deleted with all its objects");
        let advice = "the operator has to remove the finalizers of its objects; then the leader installs it again";
        findings.push(DoctorFinding::problem(text, advice));
    }
    findings
}

/// Finds versions in which objects may still be stored, and that the program does not store any more.
fn stored_versions(name: &str, wanted: &Value, present: &Value) -> Option<DoctorFinding> {
    let versions = wanted["spec"]["versions"].as_array().into_iter().flatten();
    let mut stores = versions.filter(|version| version["storage"] == true);
    let stores = &stores.next()?["name"];
    let stored = present["status"]["storedVersions"].as_array()?.iter();
    let left: Vec<&str> = stored
        .filter(|version| *version != stores)
        .filter_map(Value::as_str)
        .collect();
    if left.is_empty() {
        return None;
    }
    let text = format!(
        "{name} may have objects that are stored in {}",
        left.join(", ")
    );
    let advice = "the leader stores them anew by itself after it has installed the definition, with --install; it logs \
                  each object that is refused";
    Some(
        DoctorFinding::problem(text, advice).advise("until then no release can remove the version"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::FindingLevel;

    fn definition() -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
        json!({
            "metadata": {"name": "sites.example.com"},
            "spec": {"versions": [version("v1"), version("v2")], "conversion": {"strategy": "Webhook"}},
            "status": {
                "storedVersions": ["v1"],
                "conditions": [
                    {"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"},
                ],
            },
        })
    }

    /// Returns the texts and advice of the findings about a changed definition.
    fn check(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut present = definition();
        change(&mut present);
        let found = check_definition(&definition(), &Ok(Some(present)));
        found
            .into_iter()
            .filter(|finding| finding.level == FindingLevel::Problem)
            .map(|finding| [vec![finding.text], finding.advice].concat().join("\n"))
            .collect()
    }

    fn assert_one(found: &[String], words: &[&str]) {
        let [found] = found else {
            panic!("{found:?}");
        };
        for word in words {
            assert!(found.contains(word), "{word}: {found}");
        }
    }

    #[test]
    fn each_defect_of_a_definition_is_one_problem() {
        assert_eq!(check(|_| ()), [""; 0]);
        let conversion =
            check(|present| present["spec"]["conversion"] = json!({"strategy": "None"}));
        assert_one(
            &conversion,
            &["no conversion webhook", "--webhook-bind-address"],
        );
        let version = check(|present| {
            present["spec"]["versions"].as_array_mut().unwrap().pop();
        });
        assert_one(
            &version,
            &[
                "- v2: the server lacks the version",
                "cargo steersman install",
            ],
        );
        let stored = check(|present| present["status"]["storedVersions"] = json!(["v2", "v1"]));
        assert_one(&stored, &["stored in v2", "the leader stores them anew"]);
        let names = check(|present| {
            present["status"]["conditions"] = json!([
                {"type": "NamesAccepted", "status": "False", "message": "sites is taken"},
                {"type": "Established", "status": "False"},
            ]);
        });
        assert_one(&names, &["not NamesAccepted: sites is taken"]);
        let unserved =
            check(|present| present["status"]["conditions"][1]["status"] = json!("False"));
        assert_one(&unserved, &["not Established"]);
        let deleted = check(|present| {
            present["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z")
        });
        assert_one(&deleted, &["is being deleted", "finalizers"]);
        let missing = check_definition(&definition(), &Ok(None));
        assert_eq!(missing[0].text, "sites.example.com is missing");
    }

    #[test]
    fn a_definition_that_accepts_more_is_good_and_many_differences_are_counted() {
        let mut present = definition();
        let fields: serde_json::Map<String, Value> = (0..30)
            .map(|at| (format!("f{at:02}"), json!({"type": "string"})))
            .collect();
        present["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!(fields);
        let found = check_definition(&definition(), &Ok(Some(present.clone())));
        assert!(
            matches!(&*found, [one] if one.level == FindingLevel::Good && one.text.contains("later release"))
        );
        let mut old = definition();
        old["status"] = present["status"].clone();
        let found = check_definition(&present, &Ok(Some(old)));
        assert_eq!(found[0].advice[0], "- v1.f00: the server lacks the field");
        assert_eq!(found[0].advice[SHOWN], "- and 20 more");
        assert_eq!(found[0].advice.len(), SHOWN + 2);
    }
}
