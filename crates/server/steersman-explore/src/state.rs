//! Machine: stub.
use crate::finding::StateDifference;
use crate::object_id::ObjectMap;
use crate::scenario::ScenarioRules;

/// Expected.
#[derive(Debug)]
pub struct Expected { one: ObjectMap }
impl Expected {
    /// Learns.
    #[must_use]
    pub fn learn(runs: &[ObjectMap], _rules: &ScenarioRules) -> Self { Self { one: runs.first().cloned().unwrap_or_default() } }
    /// Differs.
    #[must_use]
    pub fn differences(&self, objects: &ObjectMap) -> Vec<StateDifference> {
        self.one.iter().filter(|(id, _)| !objects.contains_key(id)).map(|(id, value)| StateDifference { object: id.clone(), expected: Some(value.clone()), found: None }).collect()
    }
    /// Varies.
    #[must_use]
    pub fn varying(&self) -> Vec<String> { Vec::new() }
}
