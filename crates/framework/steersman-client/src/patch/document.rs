//! Machine: makes the body of an apply, and reads the conflicts of a refused apply.

use serde::Serialize;
use serde_json::{Map, Value, json};
use steersman_object::{Gvk, Kind, ObjectKey, Scope};

use super::change::{SERVER_SET, encode};
use crate::error::{Error, FieldConflict};

/// Returns the key of an object, and the body of an apply of the object or of a part of it. The body has `apiVersion`
/// and `kind`, and lacks the fields that only the server sets.
///
/// CLIENT-5: `null` members are left out. They come from `Option`s that are `None`, and an apply that names a field
/// with `null` would take the field from its owner.
pub(crate) fn document(kind: &Kind, part: &impl Serialize) -> Result<(ObjectKey, Value), Error> {
    let unnamed = ObjectKey::cluster_scoped("");
    let Value::Object(mut members) = encode(kind, || unnamed.clone(), part)? else {
        return Err(not_applicable(kind, &unnamed, "it is no object"));
    };
    let Some(Value::Object(mut metadata)) = members.remove("metadata") else {
        return Err(not_applicable(kind, &unnamed, "it has no metadata"));
    };
    metadata.retain(|name, _| !SERVER_SET.contains(&name.as_str()));
    let text = |name: &str| {
        metadata
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let key = ObjectKey::namespaced(text("namespace"), text("name"));
    if key.name().is_empty() {
        let problem = "its metadata has no name, and apply works by name";
        return Err(not_applicable(kind, &key, problem));
    }
    let gvk = kind.gvk();
    for (member, expected) in [
        ("apiVersion", gvk.api_version()),
        ("kind", gvk.kind().to_owned()),
    ] {
        match members.get(member) {
            None | Some(Value::Null) => {}
            Some(Value::String(given)) if *given == expected => {}
            Some(given) => {
                let problem = format!("its {member} is {given}");
                return Err(not_applicable(kind, &key, problem));
            }
        }
        members.insert(member.to_owned(), Value::String(expected));
    }
    members.insert("metadata".to_owned(), Value::Object(metadata));
    Ok((key, without_nulls(Value::Object(members))))
}

pub(crate) fn gvk_of(manifest: &impl Serialize) -> Result<Gvk, Error> {
    let unknown = Kind::new(Gvk::new("", "", "manifest"), "", Scope::Cluster);
    let unnamed = ObjectKey::cluster_scoped("");
    let encoded = encode(&unknown, || unnamed.clone(), manifest)?;
    let text = |name: &str| encoded.get(name).and_then(Value::as_str);
    match (text("apiVersion"), text("kind")) {
        (Some(api_version), Some(kind)) => Ok(Gvk::from_api_version(api_version, kind)),
        _ => {
            let problem = "it does not name its apiVersion and kind";
            Err(not_applicable(&unknown, &unnamed, problem))
        }
    }
}

pub(crate) fn in_namespace(mut document: Value, key: &ObjectKey) -> Value {
    if let (Some(namespace), Some(Value::Object(metadata))) =
        (key.namespace(), document.get_mut("metadata"))
    {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    document
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ApplyTo {
    /// The apply changes any object of the name, whatever its uid, or creates the object.
    #[default]
    Any,
    /// The apply only creates an object: the server refuses it if an object of the name exists.
    New,
    /// The apply changes only the object with this uid: the server refuses it for any other object of the name.
    Existing(String),
}

/// A version that no object has. The server refuses an apply with this version as a conflict if the object exists, and
/// ignores the version for a new object.
const NO_VERSION: &str = "1";

impl ApplyTo {
    /// Adds the required uid or version to the metadata in `document`, the body of an apply. The server refuses the
    /// apply if its object has another uid or version.
    pub(crate) fn demanded_in(&self, mut document: Value) -> Value {
        let (name, value) = match self {
            Self::Any => return document,
            Self::New => ("resourceVersion", NO_VERSION),
            Self::Existing(uid) => ("uid", uid.as_str()),
        };
        if let Some(Value::Object(metadata)) = document.get_mut("metadata") {
            metadata.insert(name.to_owned(), value.into());
        }
        document
    }
}

/// Returns the body of an apply of a subresource, with the name of the object `key`. A body without `apiVersion` and
/// `kind` gets the type of the object; a body such as that of `scale` has its own type.
pub(crate) fn part_document(
    kind: &Kind,
    key: &ObjectKey,
    body: &impl Serialize,
) -> Result<Value, Error> {
    let Value::Object(mut members) = without_nulls(encode(kind, || key.clone(), body)?) else {
        return Err(not_applicable(kind, key, "it is no object"));
    };
    let gvk = kind.gvk();
    if !members.contains_key("apiVersion") && !members.contains_key("kind") {
        members.insert("apiVersion".to_owned(), gvk.api_version().into());
        members.insert("kind".to_owned(), gvk.kind().into());
    }
    // An apply of a subresource cannot set other metadata than the name and the namespace, so only these are kept.
    members.insert("metadata".to_owned(), json!({"name": key.name()}));
    Ok(in_namespace(Value::Object(members), key))
}

/// Returns the fields that other managers own, for which the server refused an apply. Empty if the error is not a
/// conflict of an apply.
///
/// The server's error has one cause for each field. The text of a cause has the manager, and the subresource if there
/// is one, as quoted words (apimachinery, `managedfields/internal/conflict.go`).
pub(crate) fn conflicts(refused: &steersman_api::Error) -> Vec<FieldConflict> {
    let details = refused.status().and_then(|status| status.details.as_ref());
    let causes = details.iter().flat_map(|details| &details.causes);
    causes
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| {
            let mut quoted = cause.message.split('"').skip(1).step_by(2);
            let manager = quoted.next().unwrap_or_default().to_owned();
            let subresource = quoted.next().map(ToOwned::to_owned);
            FieldConflict {
                manager,
                subresource,
                field: cause.field.clone(),
            }
        })
        .collect()
}

fn not_applicable(kind: &Kind, key: &ObjectKey, problem: impl Into<String>) -> Error {
    Error::NotApplicable {
        kind: kind.clone(),
        key: key.clone(),
        problem: problem.into(),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, member)| !member.is_null());
            let members = members.map(|(name, member)| (name, without_nulls(member)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Pod};
    use steersman_api::RequestInfo;
    use steersman_api::error::Status;

    use super::*;

    #[test]
    fn fields_of_the_server_are_left_out_and_the_type_is_filled_in() {
        let config: ConfigMap = serde_json::from_value(json!({
            "metadata": {
                "name": "c", "namespace": "a", "uid": "u", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}],
                "labels": {"l": "1"},
            },
            "data": {"k": "v"},
        }))
        .unwrap();
        let (key, document) = document(&Kind::of::<ConfigMap>(), &config).unwrap();
        assert_eq!(key, ObjectKey::namespaced("a", "c"));
        assert_eq!(
            document,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "c", "namespace": "a", "labels": {"l": "1"}},
                "data": {"k": "v"},
            })
        );
    }

    /// CLIENT-5: a `null` member is not applied, at any depth; a `null` that is an item of a list stays.
    #[test]
    fn null_members_are_not_applied() {
        #[derive(Serialize)]
        struct Partial {
            metadata: Value,
            spec: Value,
            status: Option<Value>,
        }
        let partial = Partial {
            metadata: json!({"name": "p", "labels": null}),
            spec: json!({"containers": [{"name": "c", "image": null, "env": [null]}]}),
            status: None,
        };
        let (_, document) = document(&Kind::of::<Pod>(), &partial).unwrap();
        assert_eq!(
            document,
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c", "env": [null]}]},
            })
        );
    }

    #[test]
    fn a_document_that_cannot_be_applied_is_refused_with_the_reason() {
        for (part, expected) in [
            (json!([]), "no object"),
            (json!({}), "no metadata"),
            (json!({"metadata": {}}), "no name"),
            (json!({"metadata": {"generateName": "x-"}}), "no name"),
            (
                json!({"kind": "Pod", "metadata": {"name": "x"}}),
                "its kind is \"Pod\"",
            ),
            (
                json!({"apiVersion": "v2", "metadata": {"name": "x"}}),
                "its apiVersion is \"v2\"",
            ),
        ] {
            let error = document(&Kind::of::<ConfigMap>(), &part).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_conflict_names_the_other_manager_and_the_field() {
        let status: Status = serde_json::from_value(json!({
            "kind": "Status", "apiVersion": "v1", "code": 409, "reason": "Conflict", "message": "m",
            "details": {"causes": [
                {"reason": "FieldManagerConflict", "field": ".spec.replicas",
                 "message": "conflict with \"kubectl\" with subresource \"scale\" using apps/v1"},
                {"reason": "FieldManagerConflict", "field": ".data.k", "message": "conflict with \"helm\" using v1"},
                {"reason": "FieldValueInvalid", "field": "x", "message": "y"},
            ]},
        }))
        .unwrap();
        let kind = Kind::of::<ConfigMap>();
        let info = RequestInfo::of_object("patch", &kind, &ObjectKey::namespaced("a", "b"));
        let found = conflicts(&steersman_api::Error::from_status(info, status, None));
        let found: Vec<_> = found
            .iter()
            .map(|c| {
                (
                    c.manager.as_str(),
                    c.subresource.as_deref(),
                    c.field.as_str(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("kubectl", Some("scale"), ".spec.replicas"),
                ("helm", None, ".data.k")
            ]
        );
    }
}
