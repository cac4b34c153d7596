//! Words: `Draft`, an object to store, with managedFields that may be computed later.

use serde_json::Value;

use super::revision_text::{ManagedFields, take};

/// An object that is about to be stored, with its managedFields kept apart.
#[derive(Debug)]
pub struct Draft {
    /// The object without its managedFields.
    pub value: Value,
    pub(super) managed: ManagedFields,
}

impl Draft {
    /// Creates a draft of `value` with these managedFields, unless `value` itself contains managedFields (not null).
    pub fn new(mut value: Value, managed: impl Into<ManagedFields>) -> Self {
        let own = take(&mut value).filter(|own| !own.is_null());
        let managed = own.map_or_else(|| managed.into(), |own| Some(own.to_string()).into());
        Self { value, managed }
    }

    /// Returns the managedFields as JSON, computing them if they are not known yet; `None` if there are none.
    pub fn managed(&mut self) -> Option<&str> {
        self.managed.compute(&self.value)
    }
}

impl From<Value> for Draft {
    fn from(value: Value) -> Self {
        Self::new(value, None)
    }
}
