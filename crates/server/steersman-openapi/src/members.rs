//! Words: `Members`, the encoded members of a document, which take a tenth of the memory of their values.

use std::collections::BTreeMap;

use serde_json::Value;

/// The members of a JSON object, each in its encoding.
#[derive(Default)]
pub(crate) struct Members(BTreeMap<String, Vec<u8>>);

impl Members {
    pub(crate) fn insert(&mut self, name: String, encoded: Vec<u8>) {
        self.0.insert(name, encoded);
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Returns the upper bound of the length of the object as JSON.
    pub(crate) fn length(&self) -> usize {
        let each = self.0.iter();
        each.map(|(name, text)| 2 * name.len() + text.len() + 4)
            .sum()
    }

    /// Writes the object as JSON, and frees each member that is written.
    pub(crate) fn write(self, out: &mut Vec<u8>) {
        if self.0.is_empty() {
            out.push(b'{');
        }
        let mut before = b'{';
        for (name, text) in self.into_each() {
            out.push(before);
            out.extend_from_slice(Value::from(name).to_string().as_bytes());
            out.push(b':');
            out.extend_from_slice(&text);
            before = b',';
        }
        out.push(b'}');
    }

    /// Returns each member in the order of names, and keeps none that was returned.
    pub(crate) fn into_each(mut self) -> impl Iterator<Item = (String, Vec<u8>)> {
        std::iter::from_fn(move || self.0.pop_first())
    }
}
