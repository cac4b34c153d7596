//! Words: the JSON of one revision of an object and its managedFields, made at their first use.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::change_type::ChangeType;

/// The field of `metadata` that records the owners of fields.
pub(super) const MANAGED: &str = "managedFields";

/// The JSON of one revision, for all copies of the revision.
///
/// A write stores the object alone. It is serialised, and its managedFields are computed, once for
/// all readers: by the first of them, or by [`AfterWrites`](super::AfterWrites) (SRV-STORE-6,
/// SRV-STORE-10).
#[derive(Debug)]
pub(super) struct RevisionText {
    serialised: OnceLock<Serialised>,
    /// The object, until it is serialised.
    unserialised: Mutex<Option<Unserialised>>,
    /// The type of the watch event with this revision, if there is one.
    made: Option<ChangeType>,
}

#[derive(Debug)]
struct Unserialised {
    lean: Arc<Value>,
    managed: ManagedFields,
}

#[derive(Debug)]
struct Serialised {
    /// All bytes: the object, or the line of a watch event around it.
    all: Bytes,
    /// The object, a part of `all`. It starts with `kind` and `apiVersion`.
    object: Bytes,
    /// The offset in the object after its type.
    after_type: usize,
    /// The range of the value of `metadata.managedFields` in the object; empty if absent.
    managed: Range<u32>,
}

/// The managedFields of an object that is not serialised yet.
pub struct ManagedFields(Form);

enum Form {
    /// Their JSON; `None` for an object without managedFields.
    Known(Option<String>),
    /// The managedFields of another revision.
    Of(Arc<RevisionText>),
    /// The function that computes their JSON from the stored object.
    Later(Compute),
}

/// Computes the managedFields of a stored object as JSON.
type Compute = Box<dyn FnOnce(&Value) -> Option<String> + Send + Sync>;

impl RevisionText {
    /// Creates the text of an object. With an event type, its bytes lie inside the line of that watch
    /// event.
    pub(super) fn new(lean: Arc<Value>, managed: ManagedFields, made: Option<ChangeType>) -> Self {
        Self {
            serialised: OnceLock::new(),
            unserialised: Mutex::new(Some(Unserialised { lean, managed })),
            made,
        }
    }

    pub(super) fn is_serialised(&self) -> bool {
        self.serialised.get().is_some()
    }

    pub(super) fn bytes(&self) -> &Bytes {
        &self.serialised().object
    }

    pub(super) fn after_type(&self) -> usize {
        self.serialised().after_type
    }

    pub(super) fn line(&self, made: ChangeType) -> Option<&Bytes> {
        (self.made == Some(made)).then(|| &self.serialised().all)
    }

    pub(super) fn made(&self) -> Option<ChangeType> {
        self.made
    }

    pub(super) fn managed(&self) -> Option<&str> {
        let Serialised {
            object, managed, ..
        } = self.serialised();
        let place = managed.start as usize..managed.end as usize;
        let text = std::str::from_utf8(object.get(place)?).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    pub(super) fn lean(&self) -> Arc<Value> {
        let waiting = self.unserialised.lock();
        match &*waiting {
            Some(waiting) => Arc::clone(&waiting.lean),
            None => {
                drop(waiting);
                Arc::new(self.read_lean())
            }
        }
    }

    // The bytes were serialised from a value, so they parse; null is also the result of indexing an
    // absent member.
    fn read_lean(&self) -> Value {
        let Serialised {
            object, managed, ..
        } = self.serialised();
        if managed.is_empty() {
            return serde_json::from_slice(object).unwrap_or_default();
        }
        let before = &object[..managed.start as usize];
        let after = &object[managed.end as usize..];
        let text = [before, b"null", after].concat();
        let mut value = serde_json::from_slice(&text).unwrap_or_default();
        take(&mut value);
        value
    }

    fn serialised(&self) -> &Serialised {
        self.serialised.get_or_init(|| {
            // There is an object: it is taken only once it is serialised.
            let (lean, mut managed) = match &mut *self.unserialised.lock() {
                Some(waiting) => (
                    Arc::clone(&waiting.lean),
                    std::mem::take(&mut waiting.managed),
                ),
                None => Default::default(),
            };
            // A panic, which the process's panic hook reports, must not end the unrelated write or
            // request that needs the text. The object has no managedFields then.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                managed.compute(&lean);
            }));
            let serialised = encode(&lean, managed.compute(&lean), self.made);
            self.unserialised.lock().take();
            serialised
        })
    }
}

impl ManagedFields {
    /// Returns managedFields that are computed when the object is serialised, so usually after the
    /// lock on the registry (SRV-STORE-10). `compute` gets the object as it is stored; its
    /// `resourceVersion` may still be the one before the write.
    pub fn later(compute: impl FnOnce(&Value) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Form::Later(Box::new(compute)))
    }

    /// Returns the managedFields of a revision.
    pub(super) fn of(revision: &Arc<RevisionText>) -> Self {
        Self(Form::Of(Arc::clone(revision)))
    }

    /// Returns whether these managedFields are a copy of the ones of this revision.
    pub(super) fn are_of(&self, revision: &Arc<RevisionText>) -> bool {
        matches!(&self.0, Form::Of(own) if Arc::ptr_eq(own, revision))
    }

    /// Returns the JSON of the managedFields of `object`, and computes it if necessary.
    pub fn compute(&mut self, object: &Value) -> Option<&str> {
        if let Form::Later(compute) = &mut self.0 {
            // If it panics, the managedFields are those that the empty function returns.
            let compute = std::mem::replace(compute, Box::new(|_| None));
            self.0 = Form::Known(compute(object));
        }
        match &self.0 {
            Form::Known(managed) => managed.as_deref(),
            Form::Of(revision) => revision.managed(),
            // Unreachable: a `Form::Later` was replaced by a `Form::Known` above.
            Form::Later(_) => None,
        }
    }
}

impl fmt::Debug for ManagedFields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Known(managed) => f.debug_tuple("Known").field(managed).finish(),
            Form::Of(_) => f.write_str("Of(..)"),
            Form::Later(_) => f.write_str("Later(..)"),
        }
    }
}

impl Default for ManagedFields {
    fn default() -> Self {
        Self(Form::Known(None))
    }
}

impl From<Option<String>> for ManagedFields {
    fn from(known: Option<String>) -> Self {
        Self(Form::Known(known))
    }
}

thread_local! {
    /// The buffer into which objects are serialised before their length is known.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum capacity that the buffer keeps, in bytes.
const MOST_SCRATCH: usize = 1 << 20;

/// Serialises a watch event around an object, or the object alone without an event type. `kind` and
/// `apiVersion` come first, so that an item of a typed list is a suffix of the object's bytes.
fn encode(value: &Value, managed: Option<&str>, made: Option<ChangeType>) -> Serialised {
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
    // Copied, so that the stored bytes have no spare capacity.
    let all = Bytes::copy_from_slice(&out);
    if out.capacity() <= MOST_SCRATCH {
        SCRATCH.set(out);
    }
    // An object never reaches four gigabytes: bodies are limited.
    let offset = |at: usize| u32::try_from(at - start).unwrap_or_default();
    Serialised {
        object: all.slice(start..end),
        all,
        after_type,
        managed: offset(place.start)..offset(place.end),
    }
}

/// Writes metadata with these managedFields, and returns their range.
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

/// Closes a JSON object by replacing the comma after its last member.
fn close(out: &mut Vec<u8>, end: u8) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(end);
}

/// Writes a member. Writing into memory cannot fail, and every value serialises.
fn write_member(out: &mut Vec<u8>, field: &str, member: &Value) {
    let _ = serde_json::to_writer(&mut *out, field);
    out.push(b':');
    let _ = serde_json::to_writer(&mut *out, member);
    out.push(b',');
}

pub(super) fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove(MANAGED)
}
