//! Words: the request that an API server sends to an admission webhook.

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use steersman_object::{Gvk, Gvr};

/// An operation on an object that an admission webhook decides about, as the AdmissionReview describes it.
///
/// The fields and their meaning are those of `AdmissionRequest` in `k8s.io/api/admission/v1`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Identifies the review. The response repeats the uid.
    pub uid: String,
    /// The kind in which the objects are sent, as in the rules of the webhook.
    #[serde(deserialize_with = "from_wire::<WireKind, _, _>")]
    pub kind: Gvk,
    /// The resource in the rules of the webhook.
    #[serde(deserialize_with = "from_wire::<WireResource, _, _>")]
    pub resource: Gvr,
    /// The subresource, such as `status` or `scale`; `None` if the request is for the object itself.
    #[serde(rename = "subResource", default, deserialize_with = "non_empty")]
    pub subresource: Option<String>,
    /// The kind of the original request. It differs from `kind` if the api-server converted the objects for the
    /// webhook (`matchPolicy: Equivalent`).
    #[serde(default, deserialize_with = "optional::<WireKind, _, _>")]
    pub request_kind: Option<Gvk>,
    /// The resource of the original request.
    #[serde(default, deserialize_with = "optional::<WireResource, _, _>")]
    pub request_resource: Option<Gvr>,
    /// The subresource of the original request.
    #[serde(rename = "requestSubResource", default, deserialize_with = "non_empty")]
    pub request_subresource: Option<String>,
    /// The name of the object; empty if the server will generate the name.
    #[serde(default)]
    pub name: String,
    /// The namespace; `None` for cluster-scoped objects.
    #[serde(default, deserialize_with = "non_empty")]
    pub namespace: Option<String>,
    /// What the request does with the object.
    pub operation: Operation,
    /// The user of the request.
    #[serde(rename = "userInfo", default)]
    pub user: UserInfo,
    /// The object after the operation; `None` for a deletion.
    pub object: Option<Value>,
    /// The object before the operation; `None` for a creation.
    pub old_object: Option<Value>,
    /// Whether the request is a dry run, in which a webhook must have no side effects.
    #[serde(default, deserialize_with = "false_if_null")]
    pub dry_run: bool,
    /// The options of the operation, such as `CreateOptions`; null if the server sent none.
    #[serde(default)]
    pub options: Value,
}

/// The operation that an admission request asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[non_exhaustive]
pub enum Operation {
    /// An object is created.
    Create,
    /// An object is changed.
    Update,
    /// An object is deleted.
    Delete,
    /// A connection to an object is opened, for example `kubectl exec`.
    Connect,
}

#[derive(Deserialize)]
struct WireKind {
    #[serde(default)]
    group: String,
    version: String,
    kind: String,
}

#[derive(Deserialize)]
struct WireResource {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

impl Operation {
    /// Returns the name of the operation in a review, such as `CREATE`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

impl From<WireKind> for Gvk {
    fn from(wire: WireKind) -> Self {
        Self::new(wire.group, wire.version, wire.kind)
    }
}

impl From<WireResource> for Gvr {
    fn from(wire: WireResource) -> Self {
        Self::new(wire.group, wire.version, wire.resource)
    }
}

/// Reads a value in the form `W`, and converts it.
fn from_wire<'de, W: Deserialize<'de> + Into<T>, T, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    W::deserialize(deserializer).map(Into::into)
}

fn optional<'de, W: Deserialize<'de> + Into<T>, T, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let wire = Option::<W>::deserialize(deserializer)?;
    Ok(wire.map(Into::into))
}

fn non_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn false_if_null<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_needs_its_uid_kind_resource_and_a_known_operation() {
        let request = json!({
            "uid": "u", "kind": {"version": "v1", "kind": "Pod"},
            "resource": {"version": "v1", "resource": "pods"}, "operation": "CREATE", "namespace": "",
        });
        let read = |request: &Value| serde_json::from_value::<AdmissionRequest>(request.clone());
        let good = read(&request).unwrap();
        assert_eq!(good.kind, Gvk::new("", "v1", "Pod"));
        assert_eq!((good.namespace, good.dry_run), (None, false));
        for field in ["uid", "kind", "resource", "operation"] {
            let mut broken = request.clone();
            broken.as_object_mut().unwrap().remove(field);
            let error = read(&broken).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        let mut unknown = request;
        unknown["operation"] = json!("PATCH");
        let error = read(&unknown).unwrap_err().to_string();
        assert!(error.contains("unknown variant `PATCH`"), "{error}");
    }
}
