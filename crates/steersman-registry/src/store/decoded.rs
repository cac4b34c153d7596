//! Words: an object decoded from its JSON, with and without its managedFields.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// The field of `metadata` that records the owners of fields.
pub(super) const MANAGED: &str = "managedFields";

/// An object that is decoded at its first use and stays decoded for the lifetime of this value.
///
/// About half of an object's nodes are its managedFields, which hardly any code needs. The server
/// works with the lean form without them; the whole object is put together on demand (SRV-STORE-8).
#[derive(Debug)]
pub struct Decoded {
    bytes: Bytes,
    /// The byte range of the value of `metadata.managedFields`; empty if absent.
    managed: Range<u32>,
    lean: OnceLock<Value>,
    whole: OnceLock<Box<Value>>,
}

/// An object to store, with its managedFields kept apart as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The object without its managedFields.
    pub value: Value,
    /// Its managedFields as JSON.
    pub managed: Option<String>,
}

// === impl Decoded ===

impl Decoded {
    /// Creates the object of these bytes, undecoded. `managed` is the range of the managedFields.
    pub(super) fn folded(bytes: Bytes, managed: Range<u32>) -> Self {
        Self {
            bytes,
            managed,
            lean: OnceLock::new(),
            whole: OnceLock::new(),
        }
    }

    /// Creates the object of these bytes, with its lean form.
    pub(super) fn known(bytes: Bytes, managed: Range<u32>, lean: Value) -> Self {
        Self {
            lean: OnceLock::from(lean),
            ..Self::folded(bytes, managed)
        }
    }

    /// Returns the same object, undecoded.
    pub(super) fn fold(&self) -> Self {
        Self::folded(self.bytes.clone(), self.managed.clone())
    }

    /// Returns the object without its managedFields, and keeps it decoded.
    pub(super) fn lean(&self) -> &Value {
        self.lean.get_or_init(|| self.read_lean())
    }

    /// Returns the object without its managedFields; does not keep a newly decoded form.
    pub(super) fn look(&self) -> Cow<'_, Value> {
        match self.lean.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(self.read_lean()),
        }
    }

    /// Returns the whole object; does not keep a newly decoded form.
    pub(super) fn look_whole(&self) -> Cow<'_, Value> {
        match self.whole.get() {
            Some(value) => Cow::Borrowed(value),
            None if self.managed.is_empty() => self.look(),
            None => Cow::Owned(self.read_whole()),
        }
    }

    /// Returns the managedFields as JSON.
    pub(super) fn managed(&self) -> Option<&str> {
        let text = std::str::from_utf8(self.bytes.get(self.place())?).ok()?;
        Some(text).filter(|text| !text.is_empty())
    }

    pub(super) fn is_decoded(&self) -> bool {
        self.lean.get().is_some() || self.whole.get().is_some()
    }

    fn place(&self) -> Range<usize> {
        self.managed.start as usize..self.managed.end as usize
    }

    // The bytes were serialised from a value, so they parse; null is also the result of indexing an
    // absent member.
    fn read_lean(&self) -> Value {
        if self.managed.is_empty() {
            return serde_json::from_slice(&self.bytes).unwrap_or_default();
        }
        let place = self.place();
        let (before, after) = (&self.bytes[..place.start], &self.bytes[place.end..]);
        let text = [before, b"null", after].concat();
        let mut value = serde_json::from_slice(&text).unwrap_or_default();
        take(&mut value);
        value
    }

    fn read_whole(&self) -> Value {
        let (Some(lean), Some(managed)) = (self.lean.get(), self.managed()) else {
            return serde_json::from_slice(&self.bytes).unwrap_or_default();
        };
        let mut value = lean.clone();
        let managed = serde_json::from_str(managed).unwrap_or_default();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(MANAGED.to_owned(), managed);
        }
        value
    }
}

impl Deref for Decoded {
    type Target = Value;

    fn deref(&self) -> &Value {
        if self.managed.is_empty() {
            return self.lean();
        }
        self.whole.get_or_init(|| Box::new(self.read_whole()))
    }
}

// === impl Draft ===

impl Draft {
    /// Creates a draft with these managedFields, unless the object contains some.
    pub fn new(mut value: Value, managed: Option<String>) -> Self {
        let own = take(&mut value).filter(|own| !own.is_null());
        Self {
            value,
            managed: own.map(|own| own.to_string()).or(managed),
        }
    }
}

impl From<Value> for Draft {
    fn from(value: Value) -> Self {
        Self::new(value, None)
    }
}

fn take(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    metadata.remove(MANAGED)
}
