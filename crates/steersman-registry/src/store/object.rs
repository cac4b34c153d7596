//! Words: one revision of one object, serialised once and shared.

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::decoded::{Decoded, Draft, MANAGED};
use super::head::{Field, Head};

/// One revision of one object. Shared by `Arc` and never changed once it is made (SRV-STORE-2).
///
/// It is kept as JSON: decoded, an object takes ten times the room, so only the newest are both. What
/// the server looks at all the time stands beside it ([`Stored::meta`], [`Stored::label`],
/// [`Stored::owners`]).
#[derive(Debug)]
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

/// What made a revision of an object, in the words of watch events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub fn new(
        namespace: Arc<str>,
        name: Arc<str>,
        object: impl Into<Draft>,
        revision: u64,
    ) -> Self {
        Self::laid_out((namespace, name), object.into(), revision, None)
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
            value: self.value.fold(),
            line: self.line.clone(),
            head: Arc::clone(&self.head),
        }
    }

    /// The same revision for somebody who reads a lot of it now: where it is not decoded, he decodes
    /// his own (SRV-STORE-7).
    #[must_use]
    pub fn borrowed(self: &Arc<Self>) -> Arc<Self> {
        if self.value.is_decoded() {
            Arc::clone(self)
        } else {
            Arc::new(self.folded())
        }
    }

    /// As [`Stored::new`], with its bytes inside the line of a watch event: however many watches
    /// send it, it is written once (SRV-STORE-6).
    #[must_use]
    pub fn made(
        (namespace, name): (Arc<str>, Arc<str>),
        object: Draft,
        revision: u64,
        made: Made,
    ) -> Self {
        Self::laid_out((namespace, name), object, revision, Some(made))
    }

    fn laid_out(
        (namespace, name): (Arc<str>, Arc<str>),
        Draft { mut value, managed }: Draft,
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
        let written = encode(&value, managed.as_deref(), made);
        let bytes = written.all.slice(written.object);
        let head = Arc::new(Head::of(&value));
        Self {
            namespace,
            name,
            revision,
            value: Decoded::known(bytes.clone(), written.managed, value),
            bytes,
            after_type: written.after_type,
            line: made.map(|made| (made, written.all)),
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
        let place = (Arc::clone(&self.namespace), Arc::clone(&self.name));
        Self::made(place, self.draft(), revision, Made::Deleted)
    }

    /// The object without its managedFields (SRV-STORE-8).
    #[must_use]
    pub fn lean(&self) -> &Value {
        self.value.lean()
    }

    /// `metadata.managedFields` as JSON, where the object has any.
    #[must_use]
    pub fn managed(&self) -> Option<&str> {
        self.value.managed()
    }

    /// A copy of the object to change and store again.
    #[must_use]
    pub fn draft(&self) -> Draft {
        Draft {
            value: self.look().into_owned(),
            managed: self.managed().map(str::to_owned),
        }
    }

    /// Whether storing this would change nothing.
    #[must_use]
    pub fn holds(&self, draft: &Draft) -> bool {
        self.managed() == draft.managed.as_deref() && *self.lean() == draft.value
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
        known.unwrap_or_else(|| self.lean()["metadata"][field].as_str().unwrap_or_default())
    }

    /// The object without its managedFields for one look, after which it is as decoded as it was
    /// before.
    #[must_use]
    pub fn look(&self) -> Cow<'_, Value> {
        self.value.look()
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

    /// What field selectors look at, picked out of the object when the first one asks. All copies of
    /// this revision share it, decoded or not.
    pub fn fields(&self, pick: impl FnOnce(&Value) -> Box<[Field]>) -> &[Field] {
        self.head.fields(|| pick(&self.look()))
    }

    /// The `apiVersion` it was stored with, which stands at the beginning of its JSON.
    #[must_use]
    pub fn api_version(&self) -> &str {
        const FIELD: &str = "\"apiVersion\":\"";
        let start = self.bytes.get(..self.after_type).unwrap_or_default();
        let text = std::str::from_utf8(start).unwrap_or_default();
        // A version has no character that JSON would write otherwise.
        let found = text
            .split_once(FIELD)
            .and_then(|(_, rest)| rest.split_once('"'));
        found.map_or("", |(version, _)| version)
    }

    /// The whole object for one look, after which it is as decoded as it was before.
    #[must_use]
    pub fn look_whole(&self) -> Cow<'_, Value> {
        self.value.look_whole()
    }

    /// The object's metadata as it was written. What is around it is not decoded for that.
    #[must_use]
    pub fn metadata(&self) -> &str {
        let parts = serde_json::from_slice::<Parts<'_>>(&self.bytes);
        // The bytes were written from a value; one without metadata has none to show.
        parts.map_or("null", |parts| parts.metadata.get())
    }

    /// The uids of the owners.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.head.owners()
    }

    /// Whether the object is decoded.
    #[must_use]
    pub fn is_decoded(&self) -> bool {
        self.value.is_decoded()
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

/// What is read of an object's JSON by those who need no more.
#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

/// An object as JSON.
struct Encoded {
    /// Everything that was written: the object, or the line of a watch event around it.
    all: Bytes,
    /// Where in it the object is.
    object: Range<usize>,
    /// Where the object continues after its type.
    after_type: usize,
    /// Where in the object the managedFields are.
    managed: Range<u32>,
}

/// Writes a watch event around an object, or the object alone where nothing made it. `kind` and
/// `apiVersion` come first, so that an item of a typed list is a suffix of the object's bytes.
fn encode(value: &Value, managed: Option<&str>, made: Option<Made>) -> Encoded {
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    let mut out = SCRATCH.take();
    out.clear();
    if let Some(made) = made {
        for part in ["{\"type\":\"", made.as_str(), "\",\"object\":"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    let start = out.len();
    out.push(b'{');
    for field in ["kind", "apiVersion"] {
        if let Some(text) = object.get(field) {
            write_member(&mut out, field, text);
        }
    }
    let after_type = out.len();
    let mut place = start..start;
    for (field, member) in object {
        match (field.as_str(), member, managed) {
            ("kind" | "apiVersion", _, _) => {}
            ("metadata", Value::Object(fields), Some(managed)) => {
                place = write_metadata(&mut out, fields, managed);
            }
            _ => write_member(&mut out, field, member),
        }
    }
    close(&mut out, b'}');
    let after_type = after_type.min(out.len() - 1) - start;
    let end = out.len();
    if made.is_some() {
        out.extend_from_slice(b"}\n");
    }
    // What is kept is kept without room to grow.
    let all = Bytes::copy_from_slice(&out);
    if out.capacity() <= MOST_SCRATCH {
        SCRATCH.set(out);
    }
    // An object of four gigabytes is none that anybody could send.
    let offset = |at: usize| u32::try_from(at - start).unwrap_or_default();
    Encoded {
        all,
        object: start..end,
        after_type,
        managed: offset(place.start)..offset(place.end),
    }
}

/// Writes metadata with these managedFields, and says where they are.
fn write_metadata(out: &mut Vec<u8>, fields: &Map<String, Value>, managed: &str) -> Range<usize> {
    let mut place = None;
    let mut put = |out: &mut Vec<u8>| {
        let _ = serde_json::to_writer(&mut *out, MANAGED);
        out.push(b':');
        let start = out.len();
        out.extend_from_slice(managed.as_bytes());
        place = Some(start..out.len());
        out.push(b',');
    };
    out.extend_from_slice(b"\"metadata\":{");
    let mut written = false;
    for (field, member) in fields {
        if !written && field.as_str() > MANAGED {
            put(out);
            written = true;
        }
        write_member(out, field, member);
    }
    if !written {
        put(out);
    }
    close(out, b'}');
    out.push(b',');
    place.unwrap_or_default()
}

/// Ends an object, whose last member was written with a comma.
fn close(out: &mut Vec<u8>, end: u8) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(end);
}

/// Writing into memory cannot fail, and every value has a form in JSON.
fn write_member(out: &mut Vec<u8>, field: &str, member: &Value) {
    let _ = serde_json::to_writer(&mut *out, field);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, member);
    out.push(b',');
}

#[cfg(test)]
mod tests;
