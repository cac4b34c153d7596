//! Informers: one kind of an API server, mirrored in memory and delivered to its subscribers.
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
//! assert!(namespaces.store().get(&ObjectKey::cluster("default")).is_some());
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
//! Nothing before the view knows a Rust type: an object is its JSON and the metadata that routing
//! needs. A view is the objects as one type (`VIEW-1`): typed, dynamic and metadata-only readers
//! and subscribers share one informer, and an object that one type cannot decode does not affect
//! the others.
//!
//! - The reflector decides when to list, to watch and to wait. It makes an entry of each object
//!   that arrives, and sends deltas in the order of the server's events.
//! - The queue holds the deltas and blocks the reflector while it is full (`QUEUE-1`).
//! - The indexer changes the objects, the views and their indexes together (`STORE-1`). Each view
//!   returns its changes as [`Event`]s.
//! - Each subscriber has a mailbox of its own; a slow subscriber does not hold up the others
//!   (`FAN-2`).
//!
//! `pipeline` is the only module that joins these parts. [`Informer`] is the handle for one type,
//! [`UntypedInformer`] the handle without a type.
//!
//! Modules, in the order of their dependencies:
//!
//! - [`error`], [`state`], [`metrics`], [`options`]: the vocabulary of the handles; [`transform`]
//!   has [`Transform`], a change of each object before it is stored.
//! - [`health`] has [`ServerHealth`],
//!   the state of the server that the informers of one connection share.
//! - `body`: one object, packed and decoded; `intern`: values that many objects share; [`entry`]
//!   has [`Entry`], an object in the store.
//! - [`uncached`] has [`UncachedList`], objects that are decoded for the caller alone.
//! - [`event`] has [`Event`], the change of one object; `view_results` what views find of one, and
//!   `delta` the reflector's input to the store.
//! - [`store`], `ingest`, `reflector`, `queue`, [`fanout`]: the parts of an informer.
//! - `pipeline` joins them; [`untyped_informer`] and [`informer`] have the handles. [`internal`] has the methods that only other
//!   crates of this workspace call.

pub mod error;
pub mod state;
pub mod metrics;
pub mod transform;
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
pub mod internal;

pub use entry::Entry;
pub use error::Error;
pub use event::{Certainty, Event, Origin};
pub use fanout::{Delivery, Subscription};
pub use health::ServerHealth;
pub use informer::Informer;
pub use key_state::{Identity, KeyState};
pub use metrics::InformerMetrics;
pub use options::{DecodeBatches, Failed, FailureAdvice, FirstVersion, InformerOptions, OnFailure};
pub use state::{Reason, State};
pub use steersman_pack::Budget;
pub use store::{EntryList, IndexedValue, LazyList, ObjectList, Store};
pub use transform::Transform;
pub use uncached::{UncachedList, UncachedObject};
pub use untyped_informer::UntypedInformer;
