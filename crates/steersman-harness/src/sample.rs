//! Driver: reads objects of a test from a file.

use std::path::Path;

use serde_json::json;
use steersman_object::{Kind, TypedObject};
use steersman_testenv::apiserver::manifests;

use crate::error::HarnessError;

/// Reads the first object of a type from a file or folder of manifests, such as a sample.
///
/// A test that begins with the sample stays valid when the kind changes, and the sample does, too.
///
/// # Errors
///
/// [`HarnessError::Sample`] if the file cannot be read or has no such object.
pub fn sample<K: TypedObject>(path: impl AsRef<Path>) -> Result<K, HarnessError> {
    let path = path.as_ref();
    let wrong = |source| HarnessError::Sample {
        path: path.to_owned(),
        source,
    };
    let (kind, objects) = (Kind::of::<K>(), manifests::read(path));
    let objects = objects.map_err(|error| wrong(error.into()))?;
    let mut found = objects.into_iter().map(|manifest| manifest.object);
    let found = found.find(|object| {
        object["kind"] == kind.gvk().kind()
            && object["apiVersion"] == json!(kind.gvk().api_version())
    });
    let object =
        found.ok_or_else(|| wrong(format!("it has no object of {}", kind.gvk()).into()))?;
    serde_json::from_value(object).map_err(|error| wrong(error.into()))
}
