//! Machine: finds the objects that the schema of the program refuses.

use serde_json::Value;
use steersman_api::Malformed;
use steersman_object::json_text;
use steersman_testenv::apiserver::definition_check::ObjectCheck;

use crate::doctor::finding::{DoctorFinding, Findings, SeenFact};

/// Counts the valid and refused objects of one kind.
#[derive(Debug)]
pub(crate) struct ObjectTally {
    check: ObjectCheck,
    checked: usize,
    refused: usize,
    /// The first refused objects, each with its schema errors.
    examples: Vec<String>,
}

/// The number of refused objects that the report names.
const SHOWN: usize = 10;
/// The number of errors per object that the report shows.
const PROBLEMS: usize = 3;

impl ObjectTally {
    pub(crate) fn new(check: ObjectCheck) -> Self {
        Self {
            check,
            checked: 0,
            refused: 0,
            examples: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, object: &Value) {
        self.checked += 1;
        let problems = self.check.problems(object);
        if problems.is_empty() {
            return;
        }
        let texts = problems.iter().take(PROBLEMS);
        let mut texts: Vec<String> = texts
            .map(|problem| format!("{}: {}", problem.field, problem.message))
            .collect();
        if problems.len() > PROBLEMS {
            texts.push(format!("and {} more", problems.len() - PROBLEMS));
        }
        self.refuse(&name_of(object), &texts.join("; "));
    }

    /// Counts a list item that does not decode as an object.
    pub(crate) fn add_malformed(&mut self, object: &Malformed) {
        self.checked += 1;
        self.refuse(&object.key.to_string(), &object.error);
    }

    fn refuse(&mut self, name: &str, problem: &str) {
        self.refused += 1;
        if self.examples.len() < SHOWN {
            self.examples.push(format!("- {name}: {problem}"));
        }
    }

    /// Returns the findings about a resource in a version. `end` is an error if the list of objects was incomplete.
    pub(crate) fn findings(self, resource: &str, version: &str, end: &SeenFact<()>) -> Findings {
        let mut findings = Findings::default();
        let (checked, refused) = (self.checked, self.refused);
        if refused > 0 {
            let verb = if refused == 1 { "does" } else { "do" };
            let text =
                format!("{refused} of {checked} {resource} {verb} not fit the schema of {version}");
            let advice = "correct these fields: the operator may not be able to read the objects, and their next write is \
                          refused";
            let more = match refused - self.examples.len() {
                0 => None,
                1 => Some("- and 1 more object".to_owned()),
                rest => Some(format!("- and {rest} more objects")),
            };
            let examples = self.examples.into_iter().chain(more);
            let finding = DoctorFinding::problem(text, advice).detail(examples);
            findings.0.push(finding);
        }
        let subject = format!("the objects of {resource}");
        if findings.known(end, &subject).is_some() && refused == 0 {
            findings.good(match checked {
                0 => format!("there is no object of {resource}"),
                1 => format!("the object of {resource} fits the schema of {version}"),
                _ => format!("{checked} objects of {resource} fit the schema of {version}"),
            });
        }
        findings
    }
}

fn name_of(object: &Value) -> String {
    let text = |field: &str| json_text(&object["metadata"][field]);
    match text("namespace") {
        "" => text("name").to_owned(),
        namespace => format!("{namespace}/{}", text("name")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    fn tally() -> ObjectTally {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "required": ["size"], "properties": {"size": {"type": "integer", "maximum": 5}},
        }}});
        let definition = json!({"spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Site", "plural": "sites"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        }});
        ObjectTally::new(ObjectCheck::new(&definition, "v1").unwrap())
    }

    #[test]
    fn refused_objects_are_named_up_to_a_limit() {
        let mut tally = tally();
        for size in 0..20 {
            let metadata = json!({"namespace": "shop", "name": format!("s{size}")});
            tally.add(&json!({"metadata": metadata, "spec": {"size": size}}));
        }
        tally.add(&json!({"metadata": {"name": "none"}, "spec": {}}));
        let found = tally.findings("sites.example.com", "v1", &Ok(())).0;
        let [finding] = &*found else {
            panic!("{found:?}");
        };
        assert_eq!(
            finding.text,
            "15 of 21 sites.example.com do not fit the schema of v1"
        );
        assert!(
            finding.advice[0].starts_with("- shop/s6: spec.size: Invalid value"),
            "{finding:?}"
        );
        assert_eq!(finding.advice[SHOWN], "- and 5 more objects");
        assert_eq!(finding.advice.len(), SHOWN + 2);
    }

    #[test]
    fn one_object_that_does_not_fit_is_one_object() {
        let mut tally = tally();
        for (name, size) in [("a", 1), ("b", 6)] {
            tally.add(&json!({"metadata": {"name": name}, "spec": {"size": size}}));
        }
        let found = tally.findings("sites.example.com", "v1", &Ok(())).0;
        assert_eq!(
            found[0].text,
            "1 of 2 sites.example.com does not fit the schema of v1"
        );
    }

    #[test]
    fn an_interrupted_list_is_unknown() {
        let mut tally = tally();
        tally.add(&json!({"metadata": {"name": "a"}, "spec": {"size": 1}}));
        let found = tally
            .findings("sites.example.com", "v1", &Err(Unseen::forbidden("403")))
            .0;
        assert!(
            matches!(&*found, [one] if one.level == FindingLevel::Unknown),
            "{found:?}"
        );
    }
}
