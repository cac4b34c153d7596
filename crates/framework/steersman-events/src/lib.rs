//! Records Kubernetes Events (events.k8s.io/v1) without waiting for the server.
//!
//! An [`EventRecorder`] records events about objects, and an [`EventPublisher`] sends those of all
//! recorders in one task:
//!
//! ```
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_api::ClientConfig;
//! use steersman_apiserver::ApiServer;
//! use steersman_events::EventPublisher;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # let server = ApiServer::new();
//! let publisher = EventPublisher::new(ClientConfig::in_process(server.service(), "default"));
//! let recorder = publisher.recorder("website");
//! # let mut site = ConfigMap::default();
//! # site.metadata.namespace = Some("default".into());
//! # site.metadata.name = Some("shop".into());
//! recorder.normal(&site, "Published", "Publish", "published 3 pages");
//! publisher.stop(Duration::from_secs(2)).await;
//! assert_eq!(server.requests().count(|r| r.is_for("events")), 1);
//! # }
//! ```
//!
//! # What it promises
//!
//! - **EVENT-1** Recording an event neither waits nor sends.
//! - **EVENT-2** At most 1,000 writes wait, and every event that no Event on the server shows is
//!   counted, with a reason, and logged.
//! - **EVENT-3** An event that is repeated within six minutes is counted in the series of its Event. The
//!   server learns of the first repetition at once, then every 30 minutes, and when the series ends.
//! - **EVENT-4** After ten different notes, all further events of one reason and action are one Event,
//!   until ten minutes pass without one.
//! - **EVENT-5** A recorder creates at most 25 Events of one object at once, and one more every five
//!   minutes.
//! - **EVENT-6** Memory is bounded by the objects with recent events; no object displaces another.
//! - **EVENT-7** Every Event is valid, whatever the names and texts are.
//! - **EVENT-8** A stop sends what waits within its bound, and counts the rest.
//! - **EVENT-9** While the server is away all writes wait, and a write is tried at most twelve times; a
//!   refused write is not repeated; an Event that is gone is created anew.
//!
//! The numbers are those of client-go (`tools/events` and `tools/record`), except that the state per
//! object replaces its cache of 4,096 entries; [`EventLimits`] changes those of EVENT-3 to EVENT-5.
//!
//! # Reading order
//!
//! - [`event_type`] has [`EventType`], and [`event_limits`] has [`EventLimits`].
//! - `names` makes names and texts valid.
//! - [`object_ref`] has [`ObjectRef`] and [`Regarding`], and [`new_event`] has [`NewEvent`].
//! - `drop_reason` and `drop_log`: why events are dropped, and when the log says so; [`metrics`] has [`EventMetrics`].
//! - `token_bucket` limits the new Events of one object; `series` decides about one Event, `event_group` about similar
//!   events, and `object_events` about one object.
//! - `correlator` decides what becomes of an event, and which write is next.
//! - `shared` has the state that recorders and the task share. `write_request` makes the requests and reads their
//!   answers; `sender` is the task that sends them.
//! - [`publisher`] has [`EventPublisher`], which a manager holds, and [`recorder`] has [`EventRecorder`], which
//!   reconcilers hold.

pub mod event_type;
pub mod event_limits;
mod names;
pub mod object_ref;
pub mod new_event;
mod drop_reason;
mod drop_log;
pub mod metrics;
mod token_bucket;
mod series;
mod event_group;
mod object_events;
mod correlator;
mod shared;
mod write_request;
mod sender;
pub mod publisher;
pub mod recorder;

pub use event_limits::EventLimits;
pub use event_type::EventType;
pub use metrics::EventMetrics;
pub use new_event::NewEvent;
pub use object_ref::{ObjectRef, Regarding};
pub use publisher::EventPublisher;
pub use recorder::EventRecorder;
