//! One kind of an api-server, from the wire to its subscribers.
//!
//! The path of one event:
//!
//! ```text
//! ListWatch ─▶ reflector ─▶ Delta ─▶ queue ─▶ indexer ─▶ view ─▶ Event ─▶ mailbox ─▶ Subscription
//!              (machine,            (bounded)  (objects)  (one per         (one per
//!               driver)                           │        type)            subscriber)
//!                                                 │          │
//!                                                 └────┬─────┘
//!                                                      ▼
//!                                                    Store ─▶ reads
//! ```
//!
//! Up to the view nothing knows a type: an object is its JSON and what routing needs of it. A view
//! is what one type makes of the objects (`VIEW-1`): typed, dynamic and metadata-only readers and
//! subscribers share one informer, and what one type cannot read is no other's problem.
//!
//! - The reflector decides when to list, when to watch and when to wait, and turns
//!   what arrives into deltas, in the order the server sent them.
//! - The queue holds them, and stops the reflector where it is full (`QUEUE-1`).
//! - The indexer changes objects, and what each view makes of them with its indexes, together
//!   (`STORE-1`), and each view says what that means to those who look on: an [`Event`].
//! - Each subscriber has a mailbox of its own; a slow one costs only itself (`FAN-2`).
//!
//! `pipeline` is the only module that names more than one of these rooms. [`Informer`] is the
//! handle, [`Mirror`] the same without a type.
//!
//! Modules, words first:
//!
//! - [`error`], [`state`], [`metrics`], [`options`]: what the handle speaks in; [`transform`] has
//!   [`Transform`], what is changed of objects before anybody sees them.
//! - `pack` has how bodies are held: packed, and decoded within a [`Budget`]; [`health`] has [`ServerHealth`], what the
//!   informers of one connection know of their server.
//! - `body` has one object, packed, and what types made of it; `intern` what objects have in common;
//!   [`entry`] has [`Entry`], an object
//!   as it is held.
//! - [`uncached`] has [`UncachedList`], objects that are looked at once.
//! - [`event`] has [`Event`], what happened to one object; `judgement` what views make of one, and `delta`
//!   what the server said.
//! - `reflector`, `queue`, [`store`], [`fanout`]: the rooms, in the order of the data.
//! - `pipeline` joins them; [`mirror`] and [`informer`] have the handles.

pub mod error;
pub mod state;
pub mod metrics;
pub mod transform;
mod pack;
pub mod health;
pub mod options;
mod body;
mod intern;
pub mod entry;
pub mod uncached;
pub mod event;
pub mod observed_state;
mod judgement;
mod chunked_vec;
mod delta;
mod reflector;
mod queue;
pub mod store;
pub mod fanout;
mod pipeline;
pub mod mirror;
pub mod informer;

pub use entry::Entry;
pub use error::Error;
pub use event::{Certainty, Event, Origin};
pub use fanout::{Delivery, Subscription};
pub use health::ServerHealth;
pub use informer::Informer;
pub use metrics::InformerMetrics;
pub use mirror::Mirror;
pub use observed_state::{Identity, ObservedState};
pub use options::{DecodeBatches, Failed, FailureAdvice, FirstVersion, InformerOptions, OnFailure};
pub use pack::Budget;
pub use state::{Reason, State};
pub use store::{EntryList, IndexedValue, LazyList, ObjectList, Store};
pub use transform::Transform;
pub use uncached::{UncachedList, UncachedObject};
