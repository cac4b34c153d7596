//! Words: reads fields of an object in JSON.

use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub(super) struct JsonFields<'a>(&'a Value);

#[derive(Clone, Copy, Debug)]
pub(super) struct FoundCondition<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    message: &'a str,
}

impl<'a> JsonFields<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        Self(object)
    }

    /// Returns whether the field exists and is not null.
    pub(super) fn has(self, pointer: &str) -> bool {
        self.0
            .pointer(pointer)
            .is_some_and(|field| !field.is_null())
    }

    pub(super) fn int(self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer)?.as_i64()
    }

    /// Returns a number in the status; 0 if it is absent, as JSON omits zeros.
    pub(super) fn count(self, name: &str) -> i64 {
        let status = self.0.get("status").and_then(|status| status.get(name));
        status.and_then(Value::as_i64).unwrap_or(0)
    }

    /// Returns a text field; empty if it is absent.
    pub(super) fn text(self, pointer: &str) -> &'a str {
        let text = self.0.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    }

    pub(super) fn list(self, pointer: &str) -> impl Iterator<Item = JsonFields<'a>> {
        let list = self.0.pointer(pointer).and_then(Value::as_array);
        list.into_iter().flatten().map(JsonFields)
    }

    pub(super) fn condition(self, type_: &str) -> Option<FoundCondition<'a>> {
        let mut conditions = self.list("/status/conditions");
        let found = conditions.find(|condition| condition.text("/type") == type_)?;
        Some(FoundCondition {
            status: found.text("/status"),
            reason: found.text("/reason"),
            message: found.text("/message"),
        })
    }
}

impl FoundCondition<'_> {
    /// Returns the message of the condition, or else its reason.
    pub(super) fn text(self) -> String {
        match self.message {
            "" => self.reason.to_owned(),
            message => message.to_owned(),
        }
    }
}
