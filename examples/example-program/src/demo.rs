//! Driver: steps of a demonstration on an embedded API server.

use serde_json::Value;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;

use crate::BoxError;

/// Waits until the data of an object has this value under the key, or until the object is gone.
///
/// # Errors
///
/// An error if that does not happen in time.
pub async fn holds(
    server: &ApiServer,
    (resource, namespace, name): (&str, &str, &str),
    key: &str,
    value: Option<&str>,
) -> Result<(), BoxError> {
    let check = || {
        let found = server.get(resource, namespace, name);
        let found = found.map(|object| object["data"][key].clone());
        let is_right = found.as_ref().and_then(Value::as_str) == value;
        async move { is_right.then_some(()).ok_or_else(|| format!("{found:?}")) }
    };
    let what = format!("{value:?} in {resource} {namespace}/{name}");
    Ok(eventually(&what, check).await?)
}
