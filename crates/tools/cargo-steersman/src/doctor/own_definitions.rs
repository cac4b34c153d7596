//! Machine: compares the definitions on the server with those of the program, and checks their state.

use serde_json::Value;
use steersman_crds::CrdDifference;
use steersman_object::{json_items, json_text};

use crate::doctor::finding::{DoctorFinding, Findings, SeenObject};

/// The number of differences that the report shows.
const SHOWN: usize = 10;
const INSTALL: &str = "the leader installs it with --install, which the generated Deployment has; or run `cargo steersman install`";
/// Advice: without the webhook flag, `--install` never sets a conversion.
const CONVERT: &str = "run the operator with --install and with --webhook-bind-address, which the generated Deployment has: the leader \
     then sets the webhook; or run `cargo steersman install`. Fields that were dropped meanwhile are lost: compare the \
     objects with a backup";

pub(crate) fn check_definition(wanted: &Value, seen: &SeenObject) -> Findings {
    let name = json_text(&wanted["metadata"]["name"]);
    let mut findings = Findings::default();
    let Some(present) = findings.present(seen, name, INSTALL) else {
        return findings;
    };
    let is_converted =
        |definition: &Value| definition["spec"]["conversion"]["strategy"] == "Webhook";
    // If the program has a conversion, the versions of its definition differ.
    let lacks_conversion = is_converted(wanted) && !is_converted(present);
    if lacks_conversion {
        let text = format!(
            "{name} has several versions and no conversion webhook: objects are served in another version without being \
             converted"
        );
        findings.problem(text, CONVERT);
    }
    findings
        .0
        .extend(difference(name, wanted, present, lacks_conversion));
    conditions(name, present, &mut findings);
    findings.0.extend(stored_versions(name, wanted, present));
    if findings.0.is_empty() {
        findings.good(format!("{name} is that of the program"));
    }
    findings
}

fn difference(
    name: &str,
    wanted: &Value,
    present: &Value,
    lacks_conversion: bool,
) -> Option<DoctorFinding> {
    let entry = |field: String| format!("- {field}");
    let (state, advice, mut fields) = match CrdDifference::between(Some(present), wanted) {
        CrdDifference::Later(fields) => {
            let text = format!("{name} is that of a later release, and the leader keeps it");
            let fields = fields.into_iter().take(SHOWN).map(entry);
            return Some(DoctorFinding::good(text).detail(fields));
        }
        CrdDifference::Outdated(fields) => ("differs from that of the program", INSTALL, fields),
        CrdDifference::ToMigrate(fields) => (
            "has versions that the program removes, with objects in them",
            "the leader migrates these objects before it installs the definition, with --install; `cargo steersman \
             install` does not",
            fields,
        ),
        CrdDifference::Refused(fields) => (
            "would accept less than now: the leader refuses to install it, unless the program accepts that",
            "keep these fields, or name them with `Crd::accept_narrowing` if no object has them",
            fields,
        ),
        _ => return None,
    };
    // The lacking conversion is reported by another finding.
    fields.retain(|field| !(lacks_conversion && field.starts_with("spec.conversion:")));
    let rest = fields.len().saturating_sub(SHOWN);
    let more = (rest > 0).then(|| format!("- and {rest} more"));
    let finding = DoctorFinding::problem(format!("{name} {state}"), advice);
    let is_different = !fields.is_empty();
    let fields = fields.into_iter().take(SHOWN).map(entry);
    is_different.then(|| finding.detail(fields.chain(more)))
}

/// Adds findings for conditions that show that the server does not serve the definition.
fn conditions(name: &str, present: &Value, findings: &mut Findings) {
    let condition = |kind: &str| {
        let mut conditions = json_items(&present["status"]["conditions"]);
        conditions.find(|condition| condition["type"] == kind)
    };
    let holds = |kind: &str| condition(kind).is_some_and(|one| one["status"] == "True");
    let fails = |kind: &str| {
        let message = condition(kind).map_or("", |one| json_text(&one["message"]));
        let colon = if message.is_empty() { "" } else { ": " };
        format!("{name} is not {kind}{colon}{message}")
    };
    if !holds("NamesAccepted") {
        let advice = "another definition of the group has one of its names: delete that one, or name the kind otherwise";
        findings.problem(fails("NamesAccepted"), advice);
    } else if !holds("Established") {
        let advice = "the server establishes it within seconds; look at its log if not";
        findings.problem(fails("Established"), advice);
    }
    if !present["metadata"]["deletionTimestamp"].is_null() || holds("Terminating") {
        let text = format!("{name} is being deleted with all its objects");
        let advice = "the operator has to remove the finalizers of its objects; then the leader installs it again";
        findings.problem(text, advice);
    }
}

/// Finds versions in which objects may be stored and which the program no longer stores.
fn stored_versions(name: &str, wanted: &Value, present: &Value) -> Option<DoctorFinding> {
    let mut versions = json_items(&wanted["spec"]["versions"]);
    let stores = &versions.find(|version| version["storage"] == true)?["name"];
    let stored = json_items(&present["status"]["storedVersions"]);
    let left = stored
        .filter(|version| *version != stores)
        .filter_map(Value::as_str);
    let left = left.collect::<Vec<_>>().join(", ");
    let text = format!("{name} may have objects that are stored in {left}");
    let advice = "the leader stores them anew by itself after it has installed the definition, with --install; it logs \
                  each object that is refused";
    let finding = DoctorFinding::problem(text, advice);
    (!left.is_empty()).then(|| finding.advise("until then no release can remove the version"))
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

    /// Changes the definition on the server, and returns the texts and advice of the findings.
    fn check(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut present = definition();
        change(&mut present);
        let found = check_definition(&definition(), &Ok(Some(present)));
        let found = found.0.into_iter();
        found
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
        assert_eq!(missing.0[0].text, "sites.example.com is missing");
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
            matches!(&*found.0, [one] if one.level == FindingLevel::Good && one.text.contains("later release"))
        );
        let mut old = definition();
        old["status"] = present["status"].clone();
        let found = check_definition(&present, &Ok(Some(old))).0;
        assert_eq!(found[0].advice[0], "- v1.f00: the server lacks the field");
        assert_eq!(found[0].advice[SHOWN], "- and 20 more");
        assert_eq!(found[0].advice.len(), SHOWN + 2);
    }
}
