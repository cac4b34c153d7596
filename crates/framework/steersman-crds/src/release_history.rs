//! Machine: remembers the definitions that releases of the operator have installed, in order.

use std::hash::Hasher as _;

use fnv::FnvHasher;
use serde_json::Value;

use crate::normal_form::normalized;

/// The definition's annotation with the fingerprints of all applied definitions, oldest first.
const ANNOTATION: &str = "steersman/definitions";
/// The number of fingerprints that are kept.
const MOST: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReleaseHistory(Vec<String>);

impl ReleaseHistory {
    pub(crate) fn read(definition: &Value) -> Self {
        let text = definition["metadata"]["annotations"][ANNOTATION].as_str();
        let fingerprints = text.unwrap_or_default().split_whitespace();
        Self(fingerprints.map(str::to_owned).collect())
    }

    /// Returns whether this definition was installed, and another definition after it.
    pub(crate) fn is_former(&self, definition: &Value) -> bool {
        let fingerprint = fingerprint(definition);
        self.0.contains(&fingerprint) && self.0.last() != Some(&fingerprint)
    }

    pub(crate) fn add(&mut self, definition: &Value) {
        let fingerprint = fingerprint(definition);
        self.0.retain(|known| *known != fingerprint);
        self.0.push(fingerprint);
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    pub(crate) fn write(&self, definition: &mut Value) {
        definition["metadata"]["annotations"][ANNOTATION] = Value::from(self.0.join(" "));
    }
}

/// Returns a fingerprint of a definition's versions, which is the same in all builds: FNV-1a of the normal form.
fn fingerprint(definition: &Value) -> String {
    let versions = normalized(&definition["spec"]["versions"]).to_string();
    let mut hasher = FnvHasher::default();
    hasher.write(versions.as_bytes());
    format!("{:016x}", hasher.finish())
}
