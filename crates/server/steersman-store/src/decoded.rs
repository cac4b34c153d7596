//! Words: `Decoded`, the decoded value of an object, with and without its managedFields.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::change_type::ChangeType;
use super::later_reads::ReadReporter;
use super::revision_text::{MANAGED, ManagedFields, RevisionText};

/// An object as JSON, and its value, which is decoded at the first use and kept for the lifetime of this struct.
///
/// About half of the nodes of an object are its managedFields, which little code needs. The server works with `lean`,
/// the object without managedFields; `whole`, with managedFields, is built on demand (SRV-STORE-8).
#[derive(Debug)]
pub struct Decoded {
    pub(super) text: Arc<RevisionText>,
    lean: OnceLock<Arc<Value>>,
    whole: OnceLock<Box<Value>>,
    /// Is told when this copy is decoded again. `None` for copies outside the store and for newly written objects.
    reporter: Option<Box<ReadReporter>>,
}

impl Decoded {
    /// Creates an object from its value without managedFields, not serialised yet. `made`: the type of its watch event.
    pub(super) fn new(lean: Value, managed: ManagedFields, made: Option<ChangeType>) -> Self {
        let lean = Arc::new(lean);
        Self {
            text: Arc::new(RevisionText::new(Arc::clone(&lean), managed, made)),
            lean: OnceLock::from(lean),
            whole: OnceLock::new(),
            reporter: None,
        }
    }

    /// Returns a copy that shares the JSON but is not decoded. Decoding the copy tells `reporter`, if there is one.
    pub(super) fn fold(&self, reporter: Option<ReadReporter>) -> Self {
        Self {
            text: Arc::clone(&self.text),
            lean: OnceLock::new(),
            whole: OnceLock::new(),
            reporter: reporter.map(Box::new),
        }
    }

    pub(super) fn lean(&self) -> &Value {
        self.lean.get_or_init(|| {
            self.report();
            self.text.lean()
        })
    }

    pub(super) fn decoded(&self) -> Option<&Value> {
        self.lean.get().map(|lean| &**lean)
    }

    pub(super) fn look(&self) -> Cow<'_, Value> {
        match self.decoded() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(Arc::unwrap_or_clone(self.text.lean())),
        }
    }

    pub(super) fn look_whole(&self) -> Cow<'_, Value> {
        match self.whole.get() {
            Some(value) => Cow::Borrowed(value),
            None if self.managed().is_none() => self.look(),
            None => Cow::Owned(self.read_whole()),
        }
    }

    pub(super) fn managed(&self) -> Option<&str> {
        self.text.managed()
    }

    fn report(&self) {
        if let Some(reporter) = &self.reporter {
            reporter.report(&self.text);
        }
    }

    pub(super) fn is_decoded(&self) -> bool {
        self.lean.get().is_some() || self.whole.get().is_some()
    }

    // Parsing cannot fail, because the bytes were serialised from a value; so the default, null, is never used.
    fn read_whole(&self) -> Value {
        let (Some(lean), Some(managed)) = (self.decoded(), self.managed()) else {
            return serde_json::from_slice(self.text.bytes()).unwrap_or_default();
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
        if self.managed().is_none() {
            return self.lean();
        }
        self.whole.get_or_init(|| {
            if self.decoded().is_none() {
                self.report();
            }
            Box::new(self.read_whole())
        })
    }
}
