//! Words: one revision of one object, serialised once and shared.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

use super::head::Head;

/// One revision of one object. Shared by `Arc` and never changed once it is made (SRV-STORE-2).
///
/// It is kept as JSON: decoded, an object takes ten times the room, so only the newest are both. What
/// the server looks at all the time stands beside it ([`Stored::meta`], [`Stored::label`],
/// [`Stored::owners`]).
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
    /// The object, decoded when it is first looked at.
    pub value: Decoded,
    /// The line of the watch event that made it, of which `bytes` are a part.
    line: Option<(Made, Bytes)>,
    head: Arc<Head>,
}

/// An object that is decoded when it is first looked at, and stays so as long as this lives.
#[derive(Debug)]
pub struct Decoded {
    bytes: Bytes,
    value: OnceLock<Value>,
}

impl Deref for Decoded {
    type Target = Value;

    fn deref(&self) -> &Value {
        // The bytes were written from a value, so they can be read; null is what an index into
        // nothing gives as well.
        self.value
            .get_or_init(|| serde_json::from_slice(&self.bytes).unwrap_or_default())
    }
}

/// What made a revision of an object, in the words of watch events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Made {
    /// The object was not there before.
    Added,
    /// It was.
    Modified,
    /// It is there no more.
    Deleted,
}

impl Made {
    /// The type of the event, for instance `ADDED`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Stored {
    /// Stamps `revision` into the object (or takes the field away for revision zero) and
    /// serialises it.
    #[must_use]
    pub fn new(namespace: Arc<str>, name: Arc<str>, value: Value, revision: u64) -> Self {
        Self::laid_out(namespace, name, value, revision, None)
    }

    /// The same revision, not decoded: what is only remembered takes no more room than its JSON
    /// (SRV-STORE-7).
    #[must_use]
    pub fn folded(&self) -> Self {
        Self {
            namespace: Arc::clone(&self.namespace),
            name: Arc::clone(&self.name),
            revision: self.revision,
            bytes: self.bytes.clone(),
            after_type: self.after_type,
            value: Decoded {
                bytes: self.bytes.clone(),
                value: OnceLock::new(),
            },
            line: self.line.clone(),
            head: Arc::clone(&self.head),
        }
    }

    /// The same revision for somebody who reads a lot of it now: where it is not decoded, he decodes
    /// his own (SRV-STORE-7).
    #[must_use]
    pub fn borrowed(self: &Arc<Self>) -> Arc<Self> {
        if self.value.value.get().is_some() {
            Arc::clone(self)
        } else {
            Arc::new(self.folded())
        }
    }

    /// As [`Stored::new`], with its bytes inside the line of a watch event: however many watches
    /// send it, it is written once (SRV-STORE-6).
    #[must_use]
    pub fn made(
        namespace: Arc<str>,
        name: Arc<str>,
        value: Value,
        revision: u64,
        made: Made,
    ) -> Self {
        Self::laid_out(namespace, name, value, revision, Some(made))
    }

    fn laid_out(
        namespace: Arc<str>,
        name: Arc<str>,
        mut value: Value,
        revision: u64,
        made: Option<Made>,
    ) -> Self {
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
        let prefix = made.map_or_else(String::new, |made| {
            format!("{{\"type\":\"{}\",\"object\":", made.as_str())
        });
        let (all, object, after_type) = encode(&value, &prefix);
        let bytes = all.slice(object);
        let head = Arc::new(Head::of(&value));
        Self {
            namespace,
            name,
            revision,
            value: Decoded {
                bytes: bytes.clone(),
                value: OnceLock::from(value),
            },
            bytes,
            after_type,
            line: made.map(|made| (made, all)),
            head,
        }
    }

    /// The line of the watch event that made this revision, newline included, if it is of that
    /// type.
    #[must_use]
    pub fn line(&self, made: Made) -> Option<Bytes> {
        let (own, line) = self.line.as_ref()?;
        (*own == made).then(|| line.clone())
    }

    /// The last state of the object as the revision that deleted it, or took it out of sight.
    #[must_use]
    pub fn restamped(&self, revision: u64) -> Self {
        let (namespace, name) = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        Self::made(
            namespace,
            name,
            (*self.value).clone(),
            revision,
            Made::Deleted,
        )
    }

    /// The object's place in its storage, by which lists are in order and pages go on.
    #[must_use]
    pub fn key(&self) -> String {
        object_key(&self.namespace, &self.name)
    }

    /// `metadata.<field>` as text; empty where it is absent.
    #[must_use]
    pub fn meta(&self, field: &str) -> &str {
        let known = self.head.text(field);
        known.unwrap_or_else(|| self.value["metadata"][field].as_str().unwrap_or_default())
    }

    /// The object for one look, after which it is as decoded as it was before.
    #[must_use]
    pub fn look(&self) -> Cow<'_, Value> {
        match self.value.value.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(serde_json::from_slice(&self.bytes).unwrap_or_default()),
        }
    }

    /// Whether the labels are the same.
    #[must_use]
    pub fn labelled_as(&self, other: &Self) -> bool {
        self.head.labels() == other.head.labels()
    }

    /// The label with that key.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&str> {
        self.head.label(key)
    }

    /// The uids of the owners.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.head.owners()
    }

    /// Whether the object is decoded.
    #[must_use]
    pub(crate) fn is_decoded(&self) -> bool {
        self.value.value.get().is_some()
    }
}

/// `namespace/name`, or the name alone where there is no namespace (SRV-STORE-5).
///
/// The order of these texts is not that of the pairs: `web-2/x` comes before `web/x`.
pub(super) fn object_key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() {
        name.to_owned()
    } else {
        [namespace, "/", name].concat()
    }
}

thread_local! {
    /// Where objects are written before it is known how long they are.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// As much room for writing is kept.
const MOST_SCRATCH: usize = 1 << 20;

/// Writes a watch event around an object, or the object alone where the prefix is empty. `kind`
/// and `apiVersion` come first, so that an item of a typed list is a suffix of the object's bytes.
///
/// Answers everything, where the object is in it, and where the object continues after its type.
fn encode(value: &Value, prefix: &str) -> (Bytes, Range<usize>, usize) {
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    let mut out = SCRATCH.take();
    out.clear();
    out.extend_from_slice(prefix.as_bytes());
    let start = out.len();
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
    let after_type = after_type.min(out.len()) - start;
    out.push(b'}');
    let end = out.len();
    if !prefix.is_empty() {
        out.extend_from_slice(b"}\n");
    }
    // What is kept is kept without room to grow.
    let kept = Bytes::copy_from_slice(&out);
    if out.capacity() <= MOST_SCRATCH {
        SCRATCH.set(out);
    }
    (kept, start..end, after_type)
}

/// Writing into memory cannot fail, and every value has a form in JSON.
fn write_member(out: &mut Vec<u8>, field: &str, member: &Value) {
    let _ = serde_json::to_writer(&mut *out, field);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, member);
    out.push(b',');
}
