//! Driver: what the server is given before it listens.

use std::path::{Path, PathBuf};

use serde_json::Value;
use steersman_apiserver::faults::FaultSpec;
use steersman_apiserver::{ApiServer, manifests};

use super::problem::Problem;

/// Whose fields those of the manifests are.
const MANAGER: &str = "steersman-apiserver";

/// Installs the definitions, then applies the rest: namespaces first, otherwise in their order.
pub(crate) fn plant(
    server: &ApiServer,
    definitions: &[PathBuf],
    others: &[PathBuf],
) -> Result<(), Problem> {
    let mut objects: Vec<(&Path, Value)> = Vec::new();
    for path in definitions.iter().chain(others) {
        let found = manifests::read(path)?.into_iter();
        let only = definitions.contains(path);
        let found = found.filter(|one| !only || rank(one) == 0);
        objects.extend(found.map(|object| (path.as_path(), object)));
    }
    objects.sort_by_key(|(_, object)| rank(object));
    for (path, object) in objects {
        let what = format!(
            "{} {}",
            object["kind"].as_str().unwrap_or("an object without kind"),
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        let done = if rank(&object) == 0 {
            server.install_crd(object)
        } else {
            server.apply(&object, MANAGER)
        };
        done.map_err(|status| Problem::Refused {
            what,
            path: path.to_owned(),
            source: Box::new(status),
        })?;
    }
    Ok(())
}

/// Plans the faults of a file, which stay until they are taken out.
pub(crate) fn faults(server: &ApiServer, path: &Path, text: &str) -> Result<(), Problem> {
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| Problem::Faults {
        path: path.to_owned(),
        source,
    };
    let read: Value = serde_json::from_str(text).map_err(|error| wrong(error.into()))?;
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
