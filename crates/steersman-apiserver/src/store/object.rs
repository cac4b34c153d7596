//! Words: one revision of one object, serialised once and shared.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// One revision of one object. Shared by `Arc` and never changed once it is made (SRV-STORE-2).
#[derive(Debug)]
#[non_exhaustive]
pub struct Stored {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
    /// The revision that made it, which is its `metadata.resourceVersion`; zero for an answer
    /// that was never kept (a dry-run create).
    pub revision: u64,
    /// The object as JSON, `kind` and `apiVersion` first, `resourceVersion` inside.
    pub bytes: Bytes,
    /// Where the bytes continue after `kind` and `apiVersion`.
    pub after_type: usize,
    /// The object decoded.
    pub value: Arc<Value>,
}

impl Stored {
    /// Stamps `revision` into the object (or takes the field away for revision zero) and
    /// serialises it.
    #[must_use]
    pub fn new(namespace: Arc<str>, name: Arc<str>, mut value: Value, revision: u64) -> Self {
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            if revision == 0 {
                metadata.remove("resourceVersion");
            } else {
                metadata.insert(
                    "resourceVersion".to_owned(),
                    Value::String(revision.to_string()),
                );
            }
        }
        let (bytes, after_type) = encode(&value);
        Self {
            namespace,
            name,
            revision,
            bytes,
            after_type,
            value: Arc::new(value),
        }
    }

    /// The same object as another revision, for instance the one that deleted it.
    #[must_use]
    pub fn restamped(&self, revision: u64) -> Self {
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        Self::new(namespace, name, (*self.value).clone(), revision)
    }

    /// The object's place in its storage, by which lists are in order and pages go on.
    #[must_use]
    pub fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }

    /// `metadata.<field>` as text; empty where it is absent.
    #[must_use]
    pub fn meta(&self, field: &str) -> &str {
        self.value["metadata"][field].as_str().unwrap_or_default()
    }
}

/// `namespace/name`, or the name alone where there is no namespace (SRV-STORE-5).
///
/// The order of these texts is not that of the pairs: `web-2/x` comes before `web/x`.
pub(super) fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}/{name}")
    }
}

/// Writes `kind` and `apiVersion` first, so that an item of a typed list is a suffix of the
/// object's bytes.
fn encode(value: &Value) -> (Bytes, usize) {
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    let mut out = Vec::with_capacity(512);
    out.push(b'{');
    for field in ["kind", "apiVersion"] {
        if let Some(text) = object.get(field) {
            write_member(&mut out, field, text);
        }
    }
    let after_type = out.len();
    for (field, member) in object {
        if field != "kind" && field != "apiVersion" {
            write_member(&mut out, field, member);
        }
    }
    if out.last() == Some(&b',') {
        out.pop();
    }
    let after_type = after_type.min(out.len());
    out.push(b'}');
    (Bytes::from(out), after_type)
}

fn write_member(out: &mut Vec<u8>, field: &str, member: &Value) {
    out.extend_from_slice(Value::String(field.to_owned()).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(member.to_string().as_bytes());
    out.push(b',');
}
