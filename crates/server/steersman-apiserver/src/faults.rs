//! Room: the log of received requests, and faults that tests inject.
//!
//! Invariants: of several faults that would end a request, the fault that was planned first takes effect (FAULT-1); a
//! request that a fault leaves unanswered continues when the fault is removed (FAULT-2); requests that remove faults
//! are not affected by faults (FAULT-3).
//!
//! ```
//! use serde_json::json;
//! use steersman_apiserver::ApiServer;
//! use steersman_apiserver::faults::{Answer, Effect, FaultSpec, Verb};
//!
//! let server = ApiServer::new();
//! let faults = server.faults();
//! // The next create of a Pod is carried out, but its answer is lost.
//! let lost = faults.answer(Verb::Create, "pods", Answer::code(504).times(1).after_commit());
//! // Delays a tenth of one client's requests by a second.
//! let slow = FaultSpec::new(Effect::Delay { millis: 1_000, jitter_millis: 0 });
//! let slow = faults.add(slow.user_agent("my-operator").probability(0.1))?;
//! assert_eq!(faults.planned().len(), 2);
//! // Each fault lasts as long as its guard.
//! drop((lost, slow));
//! assert!(faults.planned().is_empty());
//! # Ok::<(), steersman_apiserver::status::Status>(())
//! ```

mod record;
mod log;
mod spec;
mod plan;
mod watches;
mod outage;
mod request_interceptor;
mod handle;

pub use handle::{Answer, FaultGuard, Faults};
pub use log::RequestLog;
pub use outage::{History, Restart};
pub use plan::PlannedFault;
pub use record::{RequestRecord, Verb};
pub use request_interceptor::{ArrivalDecision, DepartureDecision, RequestInterceptor};
pub use spec::{Effect, FaultSpec};

pub(crate) use outage::RestartEffect;

pub(crate) use plan::{Chop, Decision, WatchFaults};
pub(crate) use request_interceptor::InterceptorSlot;

pub(crate) use watches::{WatchMode, WatchTap};
