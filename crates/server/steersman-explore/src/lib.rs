//! Explores an operator: crashes, lost answers and stale reads at each of its requests.
//!
//! This crate is the engine: words and machines, which decide and never wait. `steersman-apiserver` runs one world, and
//! two callers run many: the program `steersman-apiserver explore` for an operator of any language, and
//! `steersman-harness` for an operator in the process of a test.
//!
//! A *world* is one run of a [`Scenario`] on a server of its own. Undisturbed worlds are the *reference*: their
//! requests are the points to try ([`ReferencePoints`]), and other worlds must reach their states ([`Expected`]). Each
//! other world has one or two [`Perturbation`]s. The [`Campaign`] decides which worlds run, the [`Interceptor`] what happens
//! with each request of the operator, and the [`Judge`] what is wrong. A [`Finding`] is a problem with the world that
//! shows it.
//!
//! # Reading order
//!
//! - `object_id` and `request` have the words for objects and requests.
//! - `field_path` is the path of a field; `field_pattern` and `rule` read the parts of rules, and `perturbation` the names
//!   of perturbations.
//! - `scenario` has the words of a scenario, `scenario_file` reads its file, and `desired` finds other desired states of its
//!   objects.
//! - `world_event` has what happens in a world, `request_log` compares the requests of two worlds, and `finding` has what can
//!   be wrong.
//! - `story` tells a finding as text, and `report` prints a whole exploration for a terminal, a browser and CI systems.
//! - `state` learns the states of the reference, and compares those of other worlds.
//! - `points` finds the points of the reference, and the perturbations that fit; `reference` holds points and states.
//! - `interceptor` decides about the requests of one world, and `judge` about its problems.
//! - `world_order` and `campaign_result` have the words for the worlds to run and for what they find, and `campaign`
//!   decides about all worlds.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.

mod object_id;
mod request;
mod field_path;
mod field_pattern;
mod perturbation;
mod rule;
mod scenario;
mod scenario_file;
mod desired;
mod world_event;
mod request_log;
mod finding;
mod story;
mod report;
mod state;
mod points;
mod reference;
mod interceptor;
mod judge;
mod world_order;
mod campaign_result;
mod campaign;

pub use campaign::{Campaign, CampaignOptions, NextWorld};
pub use campaign_result::{CampaignProgress, CampaignResult};
pub use field_pattern::FieldPattern;
pub use finding::{ComparedState, FieldChange, Finding, Problem, StateDifference};
pub use interceptor::{Arrival, Departure, Interceptor, Ruling, WorldAction};
pub use judge::Judge;
pub use object_id::{ObjectId, ObjectMap};
pub use perturbation::{ParsePerturbationError, Perturbation, PerturbationKind};
pub use points::{Point, PointCounter, Polling, ReferencePoints, ReferenceWrite};
pub use reference::Reference;
pub use report::{DesiredReport, ExploreReport, PointOutcome, PointReport};
pub use request::{OperatorRequest, RequestVerb};
pub use rule::Rule;
pub use scenario::{DesiredFields, IgnoredPart, KindField, Scenario, ScenarioRules, Step};
pub use scenario_file::{FileStep, ScenarioFile, ScenarioFileError};
pub use state::Expected;
pub use story::tell;
pub use world_event::{ObjectChange, WorldEvent, WorldEventKind};
pub use world_order::{ComparedObjects, WorldOrder, WorldResult};
