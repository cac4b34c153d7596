//! Machine: what undisturbed worlds of a scenario did, with which each other world is compared.

use std::sync::Arc;

use crate::object_id::ObjectMap;
use crate::points::ReferencePoints;
use crate::scenario::Scenario;
use crate::state::Expected;

/// What undisturbed worlds of a scenario did.
#[derive(Debug)]
pub struct Reference {
    /// The points.
    pub points: ReferencePoints,
    /// The states that the operator reached: one for each step [`Quiet`](crate::Step::Quiet), and that of the end.
    pub states: Vec<Arc<Expected>>,
    /// Whether requests may fail although the operator is quiet, as they do in undisturbed worlds.
    pub may_fail: bool,
}

impl Reference {
    /// Learns from the states of undisturbed worlds. `points` are those of one of these worlds.
    #[must_use]
    pub fn learn(scenario: &Scenario, points: ReferencePoints, worlds: &[&[ObjectMap]]) -> Self {
        let many = worlds
            .iter()
            .map(|states| states.len())
            .min()
            .unwrap_or_default();
        let states = (0..many).map(|at| {
            let runs: Vec<ObjectMap> = worlds
                .iter()
                .filter_map(|states| states.get(at).cloned())
                .collect();
            Arc::new(Expected::learn(&runs, &scenario.rules))
        });
        Self {
            points,
            states: states.collect(),
            may_fail: false,
        }
    }

    /// Describes the parts that differ from run to run, so that they are not compared.
    #[must_use]
    pub fn varying(&self) -> Vec<String> {
        let mut all: Vec<String> = self
            .states
            .iter()
            .flat_map(|state| state.varying())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}
