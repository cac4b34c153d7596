//! Words: `Draft`, an object to store, with managedFields that may be computed later.

use serde_json::Value;

use super::revision_text::{ManagedFields, take};

/// An object to store, with its managedFields kept apart.
#[derive(Debug)]
pub struct Draft {
    /// The object without its managedFields.
    pub value: Value,
    pub(super) managed: ManagedFields,
}

impl Draft {
    /// Creates a draft of an object with these managedFields, unless the object contains managedFields.
    pub fn new(mut value: Value, managed: impl Into<ManagedFields>) -> Self {
        let own = take(&mut value).filter(|own| !own.is_null());
        let managed = own.map_or_else(|| managed.into(), |own| Some(own.to_string()).into());
        Self { value, managed }
    }

    /// Returns the managedFields as JSON. Computes them if they are not known yet.
    pub fn managed(&mut self) -> Option<&str> {
        self.managed.compute(&self.value)
    }
}

impl From<Value> for Draft {
    fn from(value: Value) -> Self {
        Self::new(value, None)
    }
}
