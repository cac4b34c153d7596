//! Words: the request that an API server sends to an admission webhook.

use k8s_openapi::api::authentication::v1::UserInfo;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use steersman_object::{Gvk, Gvr};

/// An operation on an object that an admission webhook decides about, as the AdmissionReview describes it.
///
/// The fields and their meaning are those of `AdmissionRequest` in `k8s.io/api/admission/v1`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AdmissionRequest {
    /// Identifies the review. The response repeats the uid.
    pub uid: String,
    /// The kind in which the objects are sent, as in the rules of the webhook.
    pub kind: Gvk,
    /// The resource in the rules of the webhook.
    pub resource: Gvr,
    /// The subresource, such as `status` or `scale`; `None` if the request is for the object itself.
    pub subresource: Option<String>,
    /// The kind of the original request. It differs from `kind` if the api-server converted the objects for the
    /// webhook (`matchPolicy: Equivalent`).
    pub request_kind: Option<Gvk>,
    /// The resource of the original request.
    pub request_resource: Option<Gvr>,
    /// The subresource of the original request.
    pub request_subresource: Option<String>,
    /// The name of the object; empty if the server will generate the name.
    pub name: String,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    /// What the request does with the object.
    pub operation: Operation,
    /// The user of the request.
    pub user: UserInfo,
    /// The object after the operation; `None` for a deletion.
    pub object: Option<Value>,
    /// The object before the operation; `None` for a creation.
    pub old_object: Option<Value>,
    /// Whether the request is a dry run, in which a webhook must have no side effects.
    pub dry_run: bool,
    /// The options of the operation, such as `CreateOptions`; null if the server sent none.
    pub options: Value,
}

/// The operation that an admission request asks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
#[serde(rename_all = "camelCase")]
struct WireRequest {
    uid: String,
    kind: WireKind,
    resource: WireResource,
    sub_resource: Option<String>,
    request_kind: Option<WireKind>,
    request_resource: Option<WireResource>,
    request_sub_resource: Option<String>,
    #[serde(default)]
    name: String,
    namespace: Option<String>,
    operation: String,
    #[serde(default)]
    user_info: UserInfo,
    object: Option<Value>,
    old_object: Option<Value>,
    dry_run: Option<bool>,
    #[serde(default)]
    options: Value,
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

    fn parse(name: &str) -> Option<Self> {
        let all = [Self::Create, Self::Update, Self::Delete, Self::Connect];
        all.into_iter().find(|operation| operation.as_str() == name)
    }
}

impl<'de> Deserialize<'de> for AdmissionRequest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireRequest::deserialize(deserializer)?;
        let Some(operation) = Operation::parse(&wire.operation) else {
            let expected = &["CREATE", "UPDATE", "DELETE", "CONNECT"];
            return Err(serde::de::Error::unknown_variant(&wire.operation, expected));
        };
        let some = |text: Option<String>| text.filter(|text| !text.is_empty());
        Ok(Self {
            uid: wire.uid,
            kind: wire.kind.into(),
            resource: wire.resource.into(),
            subresource: some(wire.sub_resource),
            request_kind: wire.request_kind.map(Into::into),
            request_resource: wire.request_resource.map(Into::into),
            request_subresource: some(wire.request_sub_resource),
            name: wire.name,
            namespace: some(wire.namespace),
            operation,
            user: wire.user_info,
            object: wire.object,
            old_object: wire.old_object,
            dry_run: wire.dry_run.unwrap_or_default(),
            options: wire.options,
        })
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
