//! Informers: the objects of one kind in memory, and their changes delivered to subscribers.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use steersman_api::{ApiListWatch, ClientConfig};
//! use steersman_apiserver::ApiServer;
//! use steersman_informer::{Delivery, Informer, InformerOptions};
//! use steersman_object::{Kind, ObjectKey};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! let connection = ClientConfig::in_process(server.service(), "default");
//! let kind = Kind::of::<Namespace>();
//!
//! let namespaces = Informer::<Namespace>::new(kind.clone(), InformerOptions::new());
//! let list_watch = ApiListWatch::new(connection.client()?, kind, None);
//! tokio::spawn(namespaces.run(list_watch, CancellationToken::new()));
//!
//! let mut subscription = namespaces.subscribe();
//! while let Some(Delivery::Event(event)) = subscription.next().await {
//!     println!("{}", event.key());
//! }
//! assert!(namespaces.store().get(&ObjectKey::cluster_scoped("default")).is_some());
//! # Ok(())
//! # }
//! ```
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
//! Nothing before the view knows a Rust type: an object is its JSON and the metadata that routing needs. A view decodes
//! the objects as one type (VIEW-1). Typed, dynamic and metadata-only readers and subscribers share one informer, and
//! an object that one type cannot decode does not affect views of other types.
//!
//! - The reflector decides when to list, to watch and to wait. It makes an entry of each object
//!   that arrives, and sends deltas in the order of the server's events.
//! - The queue holds the deltas in order (QUEUE-1) and blocks the reflector while it is full (QUEUE-2).
//! - The indexer changes the objects, the views and their indexes together (STORE-1). Each view
//!   returns its changes as [`Event`]s.
//! - Each subscriber has a mailbox of its own; a slow subscriber does not hold up the others (FAN-2).
//!
//! `pipeline` is the only module that joins these parts. [`Informer`] is the handle for one type,
//! [`UntypedInformer`] the handle without a type.
//!
//! # Reading order
//!
//! - [`error`], [`state`] and [`metrics`] are the vocabulary of the handles; `metrics::scrape` computes sums when
//!   metrics are collected. [`transform`] has [`Transform`], a change of each object before it is stored.
//! - [`shard_filter`] has [`ShardFilter`], the slots of a kind that a replica holds. `shard_filter::slot_ledger` decides which slots the
//!   store holds completely, and when a list of further slots is needed.
//! - [`health`] has [`ServerHealth`], the state of one server, which all informers of the server share.
//!   `health::machine` decides whether the server is away, which informer probes it each second, and when the other
//!   informers repeat their requests.
//! - [`options`] has the options of an informer.
//! - `body`: one object, packed by `steersman-pack`, and its decoded values; `intern`: values that many objects share;
//!   [`entry`] has [`Entry`], an object in the store, with its metadata for routing.
//! - [`uncached`] has [`UncachedList`], objects that are decoded for the caller alone.
//! - [`event`] has [`Event`], the change of one object; [`key_state`] has the progress of an informer and its object
//!   under one key.
//! - `view_results` has the results of decoding one object for each view, `chunked_vec` is a vector that grows without
//!   moving its elements, and `delta` is the input of the store.
//! - [`store`]: the objects. `store::indexer` changes them with their views, `store::view` holds them as one Rust type,
//!   and `store::query` selects the objects of a list, by an index of labels or of the user (`store::index`) if
//!   possible.
//! - `ingest`: the way of an object from the stream of the server to an entry. `ingest::plan` decides what becomes of
//!   an object that arrives, and `ingest::dictionary` trains dictionaries in the background.
//! - `reflector` lists and watches. `reflector::machine` decides each step, such as a list after a 410;
//!   `reflector::failure` classifies failures as those of the kind or of an outage, `reflector::pauses` keeps a backoff
//!   for each class, and `reflector::watch_activity` decides when a silent watch means a dead connection.
//! - `queue` is the bounded queue of deltas, and [`fanout`] has the subscribers.
//! - `pipeline` is the wiring file of these parts; `pipeline::status` derives the state of the informer.
//! - [`untyped_informer`] and [`informer`] have the handles.

pub mod error;
pub mod state;
pub mod metrics;
pub mod transform;
pub mod shard_filter;
pub mod health;
pub mod options;
mod body;
mod intern;
pub mod entry;
pub mod uncached;
pub mod event;
pub mod key_state;
mod view_results;
mod chunked_vec;
mod delta;
pub mod store;
mod ingest;
mod reflector;
mod queue;
pub mod fanout;
mod pipeline;
pub mod untyped_informer;
pub mod informer;

pub use entry::Entry;
pub use error::Error;
pub use event::{Certainty, Event, Origin};
pub use fanout::{Delivery, Subscription};
pub use health::ServerHealth;
pub use informer::Informer;
pub use key_state::{Identity, KeyState};
pub use metrics::InformerMetrics;
pub use metrics::gauges::InformerUsage;
pub use options::{DecodeBatches, Failed, FailureAdvice, FirstVersion, InformerOptions, OnFailure};
pub use shard_filter::ShardFilter;
pub use state::{InformerState, ListCause, Reason};
pub use steersman_pack::Budget;
pub use store::{EntryList, IndexedValue, LazyList, ObjectList, Store};
pub use transform::Transform;
pub use uncached::{UncachedList, UncachedObject};
pub use untyped_informer::UntypedInformer;
