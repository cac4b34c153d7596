//! Driver: reads the objects that `dev` applies.

use std::path::{Path, PathBuf};

use kube_core::DynamicObject;
use serde_json::Value;
use steersman_api::kube_client::Client;
use steersman_api::{Api, ClientConfig, Mapper, Patch, WriteOptions};
use steersman_object::{Gvk, Kind, ObjectKey, json_text, report};
use steersman_testenv::apiserver::manifests::{self, Manifest};

use crate::error::Error;

/// The samples: objects that `dev` applies after each start of the operator.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    /// The file or folder of the samples as messages show it: relative to the folder of the operator.
    pub(crate) shown: PathBuf,
    path: PathBuf,
}

const DEFAULT: &str = "config/samples";
const KUSTOMIZATIONS: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

impl Samples {
    /// Finds the samples at the given path, or else in the operator's sample folder, which may be missing.
    pub(crate) fn find(folder: &Path, given: Option<&Path>) -> Result<Self, Error> {
        let shown = given.unwrap_or(Path::new(DEFAULT)).to_owned();
        let path = folder.join(&shown);
        match given.is_some() && !path.exists() {
            true => Err(Error::NoSamples(shown)),
            false => Ok(Self { shown, path }),
        }
    }

    /// Reads the samples. A missing folder has no samples, and files that only kustomize reads are skipped.
    pub(crate) fn read(&self) -> Result<Vec<Manifest>, Error> {
        if !self.path.exists() {
            return Ok(Vec::new());
        }
        if self.path.is_file() && is_kustomization(&self.path) {
            return Err(Error::Kustomization(self.shown.clone()));
        }
        let mut samples = manifests::read(&self.path)?;
        samples.retain(|sample| !is_kustomization(&sample.file));
        Ok(samples)
    }

    /// Applies the samples with requests that pass the webhooks, and returns the number of samples. A refused sample
    /// does not stop the others.
    pub(crate) async fn apply(
        &self,
        client_config: &ClientConfig,
        client: &Client,
        options: &WriteOptions,
    ) -> Result<usize, Error> {
        let samples = self.read()?;
        // A new mapper is needed on each call, because a mapper caches the kinds and would miss newly installed ones.
        let mapper = Mapper::new(client_config.clone());
        let mut problems = Vec::new();
        for sample in &samples {
            let apply = async {
                let namespace = client_config.default_namespace();
                let (kind, key) = kind_and_key(sample, &mapper, namespace).await?;
                let api = Api::<DynamicObject>::new(client.clone(), kind);
                let patch = Patch::Apply(sample.object.clone());
                let applied = api.patch(&key, &patch, options).await;
                applied.map_err(|error| refused(sample, report(&error).to_string()))
            };
            problems.extend(apply.await.err());
        }
        match problems.is_empty() {
            true => Ok(samples.len()),
            false => Err(Error::Samples(problems)),
        }
    }
}

async fn kind_and_key(
    sample: &Manifest,
    mapper: &Mapper,
    default_namespace: &str,
) -> Result<(Kind, ObjectKey), Error> {
    let object = &sample.object;
    let gvk = Gvk::from_api_version(json_text(&object["apiVersion"]), json_text(&object["kind"]));
    let kind = mapper.kind(&gvk).await.map_err(|error| match error {
        steersman_api::Error::KindNotServed { .. } => Error::NotServed {
            kind: gvk.to_string(),
            object: sample.to_string(),
        },
        error => refused(sample, error.to_string()),
    })?;
    let name = json_text(&object["metadata"]["name"]);
    if name.is_empty() {
        return Err(refused(sample, "it has no metadata.name".to_owned()));
    }
    let namespace = object["metadata"]["namespace"].as_str();
    let key = match kind.is_namespaced() {
        true => ObjectKey::namespaced(namespace.unwrap_or(default_namespace), name),
        false => ObjectKey::cluster_scoped(name),
    };
    Ok((kind, key))
}

fn refused(sample: &Manifest, problem: String) -> Error {
    Error::Refused {
        object: format!("the object of {sample}"),
        problem,
    }
}

fn is_kustomization(path: &Path) -> bool {
    let name = path.file_name();
    name.is_some_and(|name| KUSTOMIZATIONS.iter().any(|known| name == *known))
}

/// Returns the objects in a generated YAML file.
pub(crate) fn documents(path: &str, text: &str) -> Result<Vec<Value>, Error> {
    const BETWEEN: &str = "\n---\n";
    let mut objects = Vec::new();
    // The line number at which the current YAML document starts.
    let mut first = 1;
    for (number, document) in text.split(BETWEEN).enumerate() {
        let object = serde_saphyr::from_str::<Value>(document).map_err(|error| {
            let line = error.location().map_or(1, |place| place.line());
            let line = usize::try_from(line).unwrap_or(usize::MAX);
            Error::Document {
                path: path.to_owned(),
                document: number + 1,
                line: first + line.saturating_sub(1),
                problem: error.to_string(),
            }
        })?;
        objects.push(object);
        first += document.lines().count() + 1;
    }
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kustomize_reads_is_no_sample_and_a_missing_default_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let read = |given: Option<&str>| {
            let samples = Samples::find(folder.path(), given.map(Path::new))?;
            samples.read()
        };
        assert!(read(None).unwrap().is_empty());
        let error = read(Some("config/samples")).unwrap_err().to_string();
        assert!(
            error.starts_with("config/samples does not exist"),
            "{error}"
        );
        let inside = folder.path().join("config/samples");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::write(inside.join("kustomization.yaml"), "resources: [a.yaml]\n").unwrap();
        std::fs::write(inside.join("a.yaml"), "kind: A\n").unwrap();
        assert_eq!(read(None).unwrap().len(), 1);
        let error = read(Some("config/samples/kustomization.yaml")).unwrap_err();
        assert!(error.to_string().contains("--kustomize"), "{error}");
    }

    #[test]
    fn an_error_in_generated_yaml_names_file_document_and_line() {
        let text = "kind: A\nname: a\n---\n# Nothing.\n---\nkind: B\nname: [\n";
        let error = documents("config/webhook.yaml", text).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("document 3 of config/webhook.yaml cannot be read, line "),
            "{text}"
        );
        let Error::Document { line, .. } = error else {
            panic!("{text}");
        };
        assert!((6..=8).contains(&line), "{line}");
        let objects = documents("a", "kind: A\n---\n# Nothing.\n---\nkind: B\n").unwrap();
        assert_eq!(objects.len(), 2);
    }
}
