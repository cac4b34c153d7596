//! Driver: reads objects from manifests for a test.

use std::path::Path;

use serde_json::json;
use steersman_object::{Kind, TypedObject};
use steersman_testenv::apiserver::manifests;

use crate::error::HarnessError;

/// Reads the first object of type `K` from a manifest, or from a folder of manifests, such as a sample.
///
/// A test that uses the sample stays valid if the kind and the sample change.
///
/// # Errors
///
/// [`HarnessError::Sample`] if the file cannot be read, or has no object of this type.
pub fn sample<K: TypedObject>(path: impl AsRef<Path>) -> Result<K, HarnessError> {
    let path = path.as_ref();
    let wrong = |path: &Path, source| HarnessError::Sample {
        path: path.to_owned(),
        source,
    };
    let (kind, objects) = (Kind::of::<K>(), manifests::read(path));
    let mut objects = objects
        .map_err(|error| wrong(path, error.into()))?
        .into_iter();
    let found = objects.find(|manifest| {
        manifest.object["kind"] == kind.gvk().kind()
            && manifest.object["apiVersion"] == json!(kind.gvk().api_version())
    });
    let none = || wrong(path, format!("it has no object of {}", kind.gvk()).into());
    let manifest = found.ok_or_else(none)?;
    let read = serde_json::from_value(manifest.object);
    // The error names the file, because `path` may be its folder.
    read.map_err(|error| wrong(&manifest.file, error.into()))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    #[test]
    fn the_error_about_a_sample_names_its_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("other.yaml"),
            "apiVersion: v1\nkind: Secret\n",
        )
        .unwrap();
        let none = sample::<ConfigMap>(folder.path()).unwrap_err();
        let text = steersman_object::report(&none).to_string();
        assert!(text.contains("it has no object of ConfigMap"), "{text}");
        let file = folder.path().join("map.yaml");
        std::fs::write(&file, "apiVersion: v1\nkind: ConfigMap\ndata: 1\n").unwrap();
        let wrong = sample::<ConfigMap>(folder.path()).unwrap_err();
        let text = steersman_object::report(&wrong).to_string();
        assert!(text.starts_with(&format!("{}: ", file.display())), "{text}");
    }
}
