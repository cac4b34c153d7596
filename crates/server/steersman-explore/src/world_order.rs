//! Words: a world to run, and what it did.

use std::sync::Arc;
use std::time::Duration;

use crate::finding::Problem;
use crate::object_id::ObjectMap;
use crate::perturbation::Perturbation;
use crate::points::ReferencePoints;
use crate::reference::Reference;
use crate::scenario::Scenario;
use crate::world_event::WorldEvent;

/// A world to run.
#[derive(Debug, Clone)]
pub struct WorldOrder {
    /// The number of the world, which its result names.
    pub id: usize,
    /// The scenario, perhaps with fewer steps.
    pub scenario: Scenario,
    /// What is perturbed; empty for an undisturbed world.
    pub perturbations: Vec<Perturbation>,
    /// What undisturbed worlds did; `None` for the reference itself.
    pub reference: Option<Arc<Reference>>,
    /// The seed of the server's uids and generated names. The worlds of a reference have different seeds, which shows
    /// the fields that depend on the seed.
    pub seed: u64,
    /// The objects that are compared with those of other worlds.
    pub compares: ComparedObjects,
}

/// The objects of a world that are compared with those of other worlds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ComparedObjects {
    /// All objects.
    #[default]
    All,
    /// Those that the user applied or the operator created. The controllers of a cluster keep some objects of the past, such
    /// as ReplicaSets without replicas, so other objects depend on the way to a desired state.
    Created,
}

/// What a world did.
#[derive(Debug, Default)]
pub struct WorldResult {
    /// What is wrong.
    pub problems: Vec<Problem>,
    /// What happened.
    pub events: Vec<WorldEvent>,
    /// The points of the world.
    pub points: ReferencePoints,
    /// The objects at each step [`Quiet`](crate::Step::Quiet), and at the end. A world that went wrong may have fewer.
    pub states: Vec<ObjectMap>,
    /// The numbers of the steps, from 1, that the server refused.
    pub refused: Vec<usize>,
    /// The requests of which the last reconcile had failed when the operator was quiet, each with its error, as far as that
    /// is known.
    pub failing: Vec<String>,
    /// Whether every perturbation happened.
    pub is_reached: bool,
    /// How long the world ran.
    pub time: Duration,
}

/// A world that is to run.
#[derive(Debug)]
pub(crate) struct WorldPlan {
    pub(crate) scenario: Scenario,
    pub(crate) perturbations: Vec<Perturbation>,
    pub(crate) reference: Option<Arc<Reference>>,
    pub(crate) seed: u64,
    pub(crate) compares: ComparedObjects,
}

impl WorldPlan {
    /// Plans an undisturbed world. `missing` is the number of undisturbed worlds that follow, and makes their seeds
    /// different.
    pub(crate) fn undisturbed(scenario: Scenario, missing: usize) -> Self {
        Self {
            scenario,
            perturbations: Vec::new(),
            reference: None,
            seed: missing as u64,
            compares: ComparedObjects::All,
        }
    }

    /// Plans a world with another desired state, or one with which it is compared.
    pub(crate) fn of_desired_state(scenario: Scenario, seed: usize) -> Self {
        Self {
            compares: ComparedObjects::Created,
            ..Self::undisturbed(scenario, seed)
        }
    }

    /// Plans a world with these perturbations.
    pub(crate) fn perturbed(
        scenario: Scenario,
        perturbations: Vec<Perturbation>,
        reference: Arc<Reference>,
    ) -> Self {
        Self {
            perturbations,
            reference: Some(reference),
            ..Self::undisturbed(scenario, 0)
        }
    }

    /// Returns the order of the world with this number.
    pub(crate) fn order(self, id: usize) -> WorldOrder {
        WorldOrder {
            id,
            scenario: self.scenario,
            perturbations: self.perturbations,
            reference: self.reference,
            seed: self.seed,
            compares: self.compares,
        }
    }
}
