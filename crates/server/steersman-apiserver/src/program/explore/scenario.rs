//! Driver: reads the file of a scenario with the files that it names.

use std::path::Path;

use serde_json::Value;
use steersman_apiserver::explore::engine::{FileStep, Scenario, ScenarioFile, Step};
use steersman_apiserver::manifests;

use crate::program::problem::{Outcome, ProgramProblem};

/// Reads a scenario. Definitions come first among the initial objects, then namespaces.
pub(crate) fn read(path: &Path) -> Outcome<Scenario> {
    let text = std::fs::read_to_string(path).map_err(|source| ProgramProblem::ScenarioRead {
        path: path.to_owned(),
        source,
    })?;
    let wrong = |source| ProgramProblem::Scenario {
        path: path.to_owned(),
        source,
    };
    let file = ScenarioFile::parse(&text).map_err(wrong)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut initial = Vec::new();
    for name in &file.initial {
        initial.extend(objects(&folder.join(name))?);
    }
    initial.sort_by_key(|object: &Value| match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    });
    let steps = file.steps.into_iter().map(|step| {
        Ok(match step {
            FileStep::Apply(source) => Step::Apply {
                objects: objects(&folder.join(&source))?,
                source,
            },
            FileStep::Other(step) => step,
        })
    });
    Ok(Scenario {
        initial: initial.into(),
        steps: steps.collect::<Outcome<Vec<Step>>>()?.into(),
        rules: std::sync::Arc::new(file.rules),
    })
}

/// Reads the objects of a file or folder, which must have some.
fn objects(path: &Path) -> Outcome<Vec<Value>> {
    let found = manifests::read(path)?;
    if found.is_empty() {
        let path = path.to_owned();
        return Err(ProgramProblem::Nothing {
            what: "object",
            path,
        });
    }
    for manifest in &found {
        let kind = manifest.object["kind"].as_str().unwrap_or_default();
        let version = manifest.object["apiVersion"].as_str().unwrap_or_default();
        let name = manifest.object["metadata"]["name"]
            .as_str()
            .unwrap_or_default();
        if kind.is_empty() || version.is_empty() || name.is_empty() {
            return Err(ProgramProblem::NoObject {
                place: manifest.to_string(),
            });
        }
    }
    Ok(found.into_iter().map(|manifest| manifest.object).collect())
}
