//! Machine: reads which object an answer is about, for an answer of any kind.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use serde::Deserialize;
use steersman_object::{Gvk, ObjectKey, ResourceVersion};

/// Identifies the object that an answer is about, by the type and the metadata in the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AnsweredObject {
    /// The kind that the answer names, which may differ from the requested kind (a `Scale`, a `Status`).
    pub gvk: Gvk,
    /// The key; for a `Status`, only the name.
    pub key: ObjectKey,
    /// The uid; empty if the answer names none.
    pub uid: String,
    /// The resource version; unset if the answer names none.
    pub version: ResourceVersion,
    /// The labels; empty if the answer names none.
    pub labels: BTreeMap<String, String>,
    /// Whether the object has a deletion timestamp.
    pub deleting: bool,
    /// Whether the object has a deletion timestamp, and neither finalizers nor a grace period: the answer to a write
    /// that removed the last finalizer. The object is gone. The finalizers in the `spec` of a Namespace count, too.
    pub finalized: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAnswer {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Option<RawMeta>,
    /// The object that a `Status` is about.
    #[serde(default)]
    details: Option<RawDetails>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawDetails {
    name: Option<String>,
    uid: Option<String>,
}

/// Returns the object that an answer is about; `None` if the answer is no object.
pub(crate) fn answered_object(body: &[u8]) -> Option<AnsweredObject> {
    let answer: RawAnswer = serde_json::from_slice(body).ok()?;
    let meta = answer.metadata.unwrap_or_default();
    let details = answer.details.unwrap_or_default();
    let gvk = Gvk::from_api_version(&answer.api_version, &answer.kind);
    let deleting = meta.deletion_timestamp.is_some();
    let has_any = |finalizers: Option<Vec<String>>| finalizers.is_some_and(|all| !all.is_empty());
    let is_held = has_any(meta.finalizers) || meta.deletion_grace_period_seconds.unwrap_or(0) > 0;
    let mut finalized = deleting && !is_held;
    if finalized && (gvk.group(), gvk.kind()) == ("", "Namespace") {
        let namespace: Namespace = serde_json::from_slice(body).ok()?;
        finalized = !has_any(namespace.spec.and_then(|spec| spec.finalizers));
    }
    Some(AnsweredObject {
        gvk,
        key: ObjectKey::namespaced(
            meta.namespace.unwrap_or_default(),
            meta.name.or(details.name).unwrap_or_default(),
        ),
        uid: meta.uid.or(details.uid).unwrap_or_default(),
        version: ResourceVersion::new(meta.resource_version.unwrap_or_default()),
        labels: meta.labels.unwrap_or_default(),
        deleting,
        finalized,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_and_a_status_name_the_object_they_are_about() {
        let object = answered_object(
            br#"{"kind":"Pod","apiVersion":"v1","spec":{"x":[1]},"metadata":{"name":"p","namespace":"n",
                "uid":"u","resourceVersion":"7","labels":{"a":"b"},"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#,
        )
        .unwrap();
        assert_eq!(object.gvk, Gvk::new("", "v1", "Pod"));
        assert_eq!(object.key, ObjectKey::namespaced("n", "p"));
        assert_eq!((object.uid.as_str(), object.version.as_str()), ("u", "7"));
        assert_eq!(object.labels["a"], "b");
        assert!(object.deleting);

        let status = answered_object(
            br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"p","uid":"u"}}"#,
        )
        .unwrap();
        assert_eq!(status.gvk.kind(), "Status");
        assert_eq!(status.key, ObjectKey::cluster_scoped("p"));
        assert_eq!((status.uid.as_str(), status.version.as_str()), ("u", ""));
    }

    #[test]
    fn an_object_without_finalizers_and_grace_is_finalized() {
        let (going, zero) = (
            r#""deletionTimestamp":"2026-01-01T00:00:00Z""#,
            r#""deletionGracePeriodSeconds":0"#,
        );
        for (kind, metadata, spec, finalized) in [
            ("Pod", format!("{going},{zero}"), "{}", true),
            ("Pod", format!(r#"{going},"finalizers":[]"#), "[1]", true),
            ("Pod", zero.to_owned(), "{}", false),
            (
                "Pod",
                format!(r#"{going},"finalizers":["a/b"]"#),
                "{}",
                false,
            ),
            (
                "Pod",
                format!(r#"{going},"deletionGracePeriodSeconds":30"#),
                "{}",
                false,
            ),
            ("Pod", going.to_owned(), r#"{"finalizers":["a"]}"#, true),
            ("Namespace", going.to_owned(), "{}", true),
            (
                "Namespace",
                going.to_owned(),
                r#"{"finalizers":["kubernetes"]}"#,
                false,
            ),
        ] {
            let body = format!(
                r#"{{"kind":"{kind}","apiVersion":"v1","metadata":{{{metadata}}},"spec":{spec}}}"#
            );
            assert_eq!(
                answered_object(body.as_bytes()).unwrap().finalized,
                finalized,
                "{body}"
            );
        }
    }

    #[test]
    fn an_answer_without_an_object_is_about_none() {
        for body in ["", "[1]", "ok", r#"{"metadata":7}"#] {
            assert_eq!(answered_object(body.as_bytes()), None, "{body}");
        }
    }
}
