//! Tests of whole operators.
//!
//! An [`OperatorTest`] declares an operator and its surroundings; [`start`](OperatorTest::start) makes a
//! [`RunningOperator`] in a namespace of its own. By default it runs on the embedded API server in this process, on a
//! paused clock if the test pauses it. [`over_network`](OperatorTest::over_network) lets the environment variables of
//! [`TestEnv`] choose: the embedded server over HTTPS, real binaries, or an existing cluster.
//!
//! ```
//! # // A doctest has no harness of its own, so here the attribute leaves a plain function.
//! # mod tokio { pub use ::tokio::*; pub use ::tokio::main as test; }
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_controller::{Action, Context, Error, Reconciler, Request};
//! use steersman_harness::{OperatorTest, Prepared};
//!
//! /// Counts the characters of a text.
//! struct Counter;
//!
//! impl Reconciler for Counter {
//!     async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
//!         let Some(config) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
//!             return Ok(Action::done());
//!         };
//!         let count = |config: &mut ConfigMap| {
//!             let data = config.data.get_or_insert_default();
//!             let length = data.get("text").map_or(0, |text| text.chars().count());
//!             data.insert("length".to_owned(), length.to_string());
//!         };
//!         ctx.client().modify(&*config, count).await?;
//!         Ok(Action::done())
//!     }
//! }
//!
//! #[tokio::test(flavor = "current_thread", start_paused = true)]
//! async fn a_text_is_counted_once() {
//!     let create = |prepared: Prepared| async move {
//!         let mut config = ConfigMap::default();
//!         config.metadata = prepared.key("poem").to_meta();
//!         config.data = Some([("text".to_owned(), "roses".to_owned())].into());
//!         prepared.client().create(&config).await?;
//!         Ok(())
//!     };
//!     let mut operator = OperatorTest::new::<ConfigMap>(Counter)
//!         .before_start(create)
//!         .start()
//!         .await
//!         .unwrap();
//!
//!     // One reconcile for the object, and one for the event of its own write.
//!     operator.tick_until_steady(2).await.unwrap();
//!     let key = operator.key("poem");
//!     let counted: ConfigMap = operator.client().live().get(&key).await.unwrap();
//!     assert_eq!(counted.data.unwrap()["length"], "5");
//!
//!     // Each object is requested once more, and nothing is written.
//!     operator.assert_settled().await.unwrap();
//!     operator.stop().await.unwrap();
//! }
//! # fn main() { a_text_is_counted_once() }
//! ```
//!
//! [`observe_rbac`](OperatorTest::observe_rbac) collects the permissions that the operator needs in a file, and
//! [`rbac_needed`](RunningOperator::rbac_needed) returns them as a role.
//!
//! [`webhooks`](OperatorTest::webhooks) lets the embedded API server call the webhooks of the operator, and [`sample`]
//! reads an object from a manifest.
//!
//! Two checks need no operator: [`check_definition`] checks a definition with its CEL rules as an API server does, and
//! [`RoundTrips`] converts random objects between the versions of a kind.
//!
//! # What it promises
//!
//! - **HARNESS-1** [`tick_until_steady`](RunningOperator::tick_until_steady) returns after a time in which no
//!   reconcile waited, ran or ended and the embedded server stored nothing, and fails as soon as more reconciles
//!   have ended than the test permits.
//! - **HARNESS-2** [`assert_settled`](RunningOperator::assert_settled) counts every write request that the server
//!   received in the round, by whichever client of the operator it was sent.
//! - **HARNESS-3** The namespace of a test that does not call [`stop`](RunningOperator::stop) stays on an existing
//!   cluster.
//! - **HARNESS-4** The file of [`observe_rbac`](OperatorTest::observe_rbac) only gains permissions: those that the
//!   operator of a test needed, if the test ends with [`stop`](RunningOperator::stop) on the embedded server. Merges
//!   of several threads and processes lose none, and a file that cannot be read as rules stays as it is.
//!
//! # Reading order
//!
//! - `error` has [`HarnessError`].
//! - `random_text` makes random texts of patterns and formats, `random_object` random objects of a schema, and
//!   `round_trips` converts these between versions.
//! - `definition_check` checks a definition and its CEL rules, with the code of the embedded server.
//! - `prepared` has the surroundings of an operator before its start.
//! - `progress` reads the progress of controllers from their metrics, and `steadiness` decides from it and the revision
//!   of the server whether an operator has nothing to do. `bound_watch` ends the wait for an operator that never
//!   pauses.
//! - `request_log` finds the requests of an operator in the log of the server.
//! - `rbac_file` merges permissions into the file of observed permissions.
//! - `called_webhooks` lets the server call the webhooks of this process, and `sample` reads objects from a file.
//! - `running_operator` runs an operator. `external` has the systems outside of the cluster that it keeps, `explore` runs it
//!   in many worlds, and `operator_test` declares it with its surroundings.

mod explore_failure;
mod error;
mod random_text;
mod random_object;
mod round_trips;
mod definition_check;
mod prepared;
mod progress;
mod steadiness;
mod bound_watch;
mod request_log;
mod rbac_file;
mod called_webhooks;
mod sample;
mod running_operator;
mod external;
mod explore;
mod operator_test;

pub use definition_check::{InvalidCrd, RuleCost, check_definition};
pub use error::HarnessError;
pub use explore::{DesiredReport, ExploreReport, PerturbationKind, PointOutcome, Scenario};
pub use explore_failure::ExploreFailure;
pub use external::External;
pub use operator_test::OperatorTest;
pub use prepared::Prepared;
pub use round_trips::{RoundTripError, RoundTripProblem, RoundTrips, Way};
pub use running_operator::RunningOperator;
pub use sample::sample;
pub use steersman_testenv as testenv;

#[cfg(doc)]
use steersman_testenv::TestEnv;
