//! Words: an object decoded from its JSON, with and without its managedFields.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;

/// The field of `metadata` that says who owns which field.
pub(super) const MANAGED: &str = "managedFields";

/// An object that is decoded when it is first looked at, and stays so as long as this lives.
///
/// Half of a usual object's nodes are its managedFields, and next to nobody looks at them: the server
/// works with the lean form, which lacks them, and the whole one is put together when somebody asks
/// for it (SRV-STORE-8).
#[derive(Debug)]
pub struct Decoded {
    bytes: Bytes,
    /// Where in the bytes the value of `metadata.managedFields` is; empty where there is none.
    managed: Range<u32>,
    lean: OnceLock<Value>,
    whole: OnceLock<Box<Value>>,
}

/// An object on its way into the store: its managedFields stand beside it, as JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The object without its managedFields.
    pub value: Value,
    /// They, as JSON.
    pub managed: Option<String>,
}

// === impl Decoded ===

impl Decoded {
    /// What these bytes say, of which `managed` are the managedFields.
    pub(super) fn folded(bytes: Bytes, managed: Range<u32>) -> Self {
        Self {
            bytes,
            managed,
            lean: OnceLock::new(),
            whole: OnceLock::new(),
        }
    }

    /// The same with its lean form.
    pub(super) fn known(bytes: Bytes, managed: Range<u32>, lean: Value) -> Self {
        Self {
            lean: OnceLock::from(lean),
            ..Self::folded(bytes, managed)
        }
    }

    /// The same, not decoded.
    pub(super) fn fold(&self) -> Self {
        Self::folded(self.bytes.clone(), self.managed.clone())
    }

    /// The object without its managedFields.
    pub(super) fn lean(&self) -> &Value {
        self.lean.get_or_init(|| self.read_lean())
    }

    /// The object without its managedFields for one look, after which it is as decoded as before.
    pub(super) fn look(&self) -> Cow<'_, Value> {
        match self.lean.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(self.read_lean()),
        }
    }

    /// The whole object for one look, after which it is as decoded as before.
    pub(super) fn look_whole(&self) -> Cow<'_, Value> {
        match self.whole.get() {
            Some(value) => Cow::Borrowed(value),
            None if self.managed.is_empty() => self.look(),
            None => Cow::Owned(self.read_whole()),
        }
    }

    /// The managedFields as JSON.
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

    // The bytes were written from a value, so they can be read; null is what an index into nothing
    // gives as well.
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
    /// An object whose managedFields are these, unless it has some in it.
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
