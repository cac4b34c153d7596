//! Words: `RevisionText`, the JSON of one revision of an object with its managedFields, made when first needed.

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

/// The JSON of one revision of an object, which all copies of the revision share.
///
/// A write does not serialise the object that it stores. The first reader, or [`AfterWrites`](super::AfterWrites),
/// serialises the object and computes its managedFields, once for all readers (SRV-STORE-6, SRV-STORE-10).
#[derive(Debug)]
pub(super) struct RevisionText {
    serialised: OnceLock<Serialised>,
    /// The decoded object that is to be serialised; `None` afterwards.
    unserialised: Mutex<Option<Unserialised>>,
    /// The type of this revision's watch event, if there is an event.
    pub(super) made: Option<ChangeType>,
}

#[derive(Debug)]
struct Unserialised {
    lean: Arc<Value>,
    managed: ManagedFields,
}

#[derive(Debug)]
struct Serialised {
    /// The bytes of the object, or of the line of a watch event around the object.
    all: Bytes,
    /// The bytes of the object, a part of `all`, which start with `kind` and `apiVersion`.
    object: Bytes,
    /// The offset of the end of `kind` and `apiVersion` in the object.
    after_type: usize,
    /// The range of the value of `metadata.managedFields` in the object; empty if it is absent.
    managed: Range<u32>,
}

/// The managedFields of an object that is not serialised yet: known, those of another revision, or computed later.
pub struct ManagedFields(Form);

enum Form {
    /// The managedFields as JSON; `None` for an object without managedFields.
    Known(Option<String>),
    /// The managedFields are the same as in this other revision.
    Of(Arc<RevisionText>),
    /// The managedFields are computed later, by this function from the stored object.
    Later(Compute),
}

/// A function that computes the managedFields of a stored object, as JSON.
type Compute = Box<dyn FnOnce(&Value) -> Option<String> + Send + Sync>;

impl RevisionText {
    /// Creates the text of an object. With an event type, the bytes of the object are a part of the line of that watch
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

    pub(super) fn managed(&self) -> Option<&str> {
        let text = self.serialised();
        let (object, managed) = (&text.object, &text.managed);
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

    // Parsing cannot fail, because the bytes were serialised from a value; so the default, null, is never used.
    fn read_lean(&self) -> Value {
        let text = self.serialised();
        let (object, managed) = (&text.object, &text.managed);
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
            // `unserialised` has the object, because only this function removes it, and this function runs once.
            let (lean, mut managed) = match &mut *self.unserialised.lock() {
                Some(waiting) => (
                    Arc::clone(&waiting.lean),
                    std::mem::take(&mut waiting.managed),
                ),
                None => Default::default(),
            };
            // A panic, which the panic hook of the process reports, must not end the unrelated write or request that
            // needs this text. The object then has no managedFields.
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
    /// Returns managedFields that are computed when their object is serialised, usually after the registry's lock is
    /// released (SRV-STORE-10). `compute` gets the object, perhaps with the `resourceVersion` before the write.
    pub fn later(compute: impl FnOnce(&Value) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Form::Later(Box::new(compute)))
    }

    /// Returns managedFields that are the same as in `revision`.
    pub(super) fn of(revision: &Arc<RevisionText>) -> Self {
        Self(Form::Of(Arc::clone(revision)))
    }

    /// Returns whether these managedFields are a copy of those of `revision`.
    pub(super) fn are_of(&self, revision: &Arc<RevisionText>) -> bool {
        matches!(&self.0, Form::Of(own) if Arc::ptr_eq(own, revision))
    }

    /// Returns the managedFields of `object` as JSON. Computes them if they are not known yet.
    pub fn compute(&mut self, object: &Value) -> Option<&str> {
        if let Form::Later(compute) = &mut self.0 {
            // If `compute` panics, the function that replaces it returns no managedFields.
            let compute = std::mem::replace(compute, Box::new(|_| None));
            self.0 = Form::Known(compute(object));
        }
        match &self.0 {
            Form::Known(managed) => managed.as_deref(),
            Form::Of(revision) => revision.managed(),
            // Unreachable, because `Form::Known` replaced `Form::Later` above.
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
    /// The buffer into which an object is serialised before its length is known.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Maximum capacity, in bytes, of the buffer that is kept for the next object: 1 MiB.
const MOST_SCRATCH: usize = 1 << 20;

/// Serialises an object, or with an event type the watch event with that object. `kind` and `apiVersion` come first, so
/// that an item of a typed list is a suffix of the object's bytes.
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
    // The bytes are copied, so that the stored bytes have no spare capacity.
    let all = Bytes::copy_from_slice(&out);
    if out.capacity() <= MOST_SCRATCH {
        SCRATCH.set(out);
    }
    // The offsets fit into 32 bits, because the body of a request is much shorter.
    let offset = |at: usize| u32::try_from(at - start).unwrap_or_default();
    Serialised {
        object: all.slice(start..end),
        all,
        after_type,
        managed: offset(place.start)..offset(place.end),
    }
}

/// Writes `metadata` with these managedFields, and returns the range of the managedFields in `out`.
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

/// Closes a JSON object or list: `end` replaces the comma after the last member.
fn close(out: &mut Vec<u8>, end: u8) {
    if out.last() == Some(&b',') {
        out.pop();
    }
    out.push(end);
}

/// Writes a member of a JSON object. Writing into memory does not fail, and every value serialises.
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
