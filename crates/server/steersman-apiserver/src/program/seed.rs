//! Driver: installs objects and faults before the server listens.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steersman_apiserver::faults::FaultSpec;
use steersman_apiserver::{ApiServer, manifests};

use super::flag_file::FlagFile;
use super::problem::{Outcome, ProgramProblem};

const MANAGER: &str = "steersman-apiserver";

/// Installs the CRDs, then applies all other objects: namespaces first, the rest in file order.
///
/// Of the files in `definitions` only CRDs are used. A path without anything to use is refused as a mistake.
pub(crate) fn plant(server: &ApiServer, definitions: &[PathBuf], others: &[PathBuf]) -> Outcome {
    let mut all = Vec::new();
    for path in definitions {
        let found = manifests::read(path)?.into_iter();
        let before = all.len();
        all.extend(found.filter(|one| rank(&one.object) == 0));
        nothing_of(all.len() == before, path, "CustomResourceDefinition")?;
    }
    for path in others {
        let found = manifests::read(path)?;
        nothing_of(found.is_empty(), path, "object")?;
        all.extend(found);
    }
    all.sort_by_key(|one| rank(&one.object));
    for manifest in all {
        let place = manifest.to_string();
        let object = manifest.object;
        let kind = object["kind"].as_str();
        let name = object["metadata"]["name"].as_str();
        let what = format!(
            "{} {}",
            kind.unwrap_or("an object without kind"),
            name.unwrap_or("without name")
        );
        let done = if rank(&object) == 0 {
            server.install_crd(object)
        } else {
            server.apply(&object, MANAGER)
        };
        done.map_err(|status| ProgramProblem::Refused {
            what,
            place,
            source: Box::new(status),
        })?;
    }
    Ok(())
}

fn nothing_of(nothing: bool, path: &Path, what: &'static str) -> Outcome {
    if nothing {
        let path = path.to_owned();
        return Err(ProgramProblem::Nothing { what, path });
    }
    Ok(())
}

/// Plans the faults of a file. `named_by` is the flag, with its dashes, or environment variable that names the file.
pub(crate) fn faults(server: &ApiServer, named_by: &'static str, path: &Path) -> Outcome {
    let text = FlagFile::new(named_by, path).text()?;
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| ProgramProblem::Faults {
        named_by,
        path: path.to_owned(),
        source,
    };
    let read: Value = serde_json::from_str(&text).map_err(|error| wrong(error.into()))?;
    let all = match read {
        Value::Array(all) => all,
        one => vec![one],
    };
    for (number, one) in all.into_iter().enumerate() {
        let spec: FaultSpec = serde_json::from_value(one)
            .map_err(|error| wrong(format!("number {number}: {error}").into()))?;
        let planned = server.faults().add(spec);
        let guard = planned.map_err(|status| wrong(format!("number {number}: {status}").into()))?;
        guard.keep();
    }
    Ok(())
}

fn rank(object: &Value) -> u8 {
    match object["kind"].as_str() {
        Some("CustomResourceDefinition") => 0,
        Some("Namespace") => 1,
        _ => 2,
    }
}
