//! An in-memory cache of Kubernetes objects: one informer per kind, shared by all readers and controllers.
//!
//! ```
//! use k8s_openapi::api::core::v1::Namespace;
//! use steersman_api::ClientConfig;
//! use steersman_apiserver::ApiServer;
//! use steersman_cache::{Cache, CacheOptions, ListOptions};
//! use steersman_object::ObjectKey;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! let cache = Cache::new(CacheOptions::new())?;
//! cache.informer::<Namespace>()?;
//! let connection = ClientConfig::in_process(server.service(), "default");
//! tokio::spawn(cache.run(connection, Default::default()));
//!
//! // Waits for the first list; later reads send no request.
//! let default = cache.get::<Namespace>(&ObjectKey::cluster_scoped("default")).await?;
//! assert!(default.metadata.uid.is_some());
//! assert!(cache.list::<Namespace>(&ListOptions::new()).await?.len() > 1);
//! # Ok(())
//! # }
//! ```
//!
//! The options of a [`Cache`] declare kinds, namespaces, selectors and field indexes before the
//! cache runs. A declaration does no I/O. [`Cache::run`] starts every declared informer; an
//! informer declared later starts at once. There is one informer for each pair of kind and
//! namespace that the options name, however many controllers and readers use it (CACHE-1).
//!
//! Typed, dynamic and metadata-only reads are views of that informer: [`Cache::get`] and [`Cache::list`] read by Rust
//! type, [`Cache::of`] reads a kind known only at runtime as any type, and [`Cache::metadata`] reads metadata. The
//! informer requests metadata only, until a reader needs whole objects.
//!
//! Results of a read:
//!
//! - The object, as a shared and immutable [`Arc`](std::sync::Arc).
//! - [`Error::NotFound`]: the API server has no such object, or a selector of the cache excludes
//!   it; [`Error::scoped_by`] returns the selectors.
//! - [`Error::Malformed`]: the object exists, but does not decode.
//! - [`Error::OutsideScope`]: the scope of the cache excludes the namespace.
//! - [`Error::ForeignSlot`]: the cache holds only some slots ([`CacheOptions::shards`]), and not the slot of the object.
//! - [`Error::Unavailable`], without a wait: the kind never synced and the requests of its informer
//!   fail (403, a CRD that is not installed, an unreachable server). Other kinds are not affected
//!   (CACHE-2).
//! - [`Error::SyncTimeout`]: the first list did not end within the sync timeout.
//! - [`Error::Stopped`]: the cache has stopped and no longer serves its objects (CACHE-10).
//!
//! A cached read may be older than the state of the server. It is never older than an event that a
//! controller received from this cache.
//!
//! # Reading order
//!
//! - [`unsynced`] has [`Unsynced`] and [`InformerFailure`], the reports on informers that have not synced or that fail.
//! - [`error`] has [`Error`].
//! - [`metrics`] has [`CacheMetrics`], the metrics of caches and their informers.
//! - [`settings`] has [`Settings`], which apply to all kinds, one kind, or one namespace.
//! - [`watch_error`] has [`WatchError`], the argument of the hook for failed requests.
//! - [`options`] has [`CacheOptions`] and [`ByObject`].
//! - `shards`: the options of a cache that holds only some slots.
//! - [`listed`] has [`Listed`], the result of a list, and [`Versions`], its resource versions.
//! - `coverage` decides which informers a kind gets and which objects they hold.
//! - `server_problem` has the reason, noted by the owner of the cache, why the whole server cannot be reached.
//! - `failure_advice`: the remedy for a kind that does not sync.
//! - `type_map` has the typed handles of one informer, by Rust type.
//! - `informer_map`: one entry per kind and namespace, created and started once.
//! - `idle_informers` decides when an undeclared informer has been idle for its linger time (CACHE-8).
//! - `written_versions`: the minimum resource version of the first list of a kind.
//! - `informer_entry` runs one informer from its start, within the limit of first syncs (CACHE-5), to its removal
//!   (CACHE-7), and gives out its typed views.
//! - `shared`: the state that all handles of one cache share. `shared::run` starts informers and ends idle ones,
//!   `shared::scope` has the default namespaces, which may change while the cache runs (CACHE-17),
//!   `shared::slots` knows which slots are loaded, `shared::namespaced_informer` tells subscribers why an informer has ended, and `shared::holds` keeps informers for
//!   optional watches.
//! - `live_reads`: reads from the server in the scope of one informer, decoded and transformed as in the cache.
//! - [`reads`] has [`Reads`], reads of one kind as one type.
//! - [`preflight_report`] has [`Preflight`], the permissions that the cache lacks, and proposes the missing rules.
//! - [`cache`] has [`Cache`], the handle.
//! - [`preflight`] asks the server for the permissions of the cache before the start.
//! - [`internal`]: the methods that only other crates of this workspace call.

pub mod unsynced;
pub mod error;
pub mod metrics;
pub mod settings;
pub mod watch_error;
pub mod options;
mod shards;
pub mod listed;
mod coverage;
mod server_problem;
mod failure_advice;
mod type_map;
mod informer_map;
mod idle_informers;
mod written_versions;
mod informer_entry;
mod shared;
mod live_reads;
pub mod reads;
pub mod preflight_report;
pub mod cache;
pub mod preflight;
#[doc(hidden)]
pub mod internal;

pub use cache::{Cache, StartedCache};
pub use error::Error;
pub use listed::{Listed, Versions};
pub use metrics::CacheMetrics;
pub use options::{ByObject, CacheOptions, Undeclared};
pub use preflight_report::{MissingRule, Preflight};
pub use reads::Reads;
pub use settings::Settings;
pub use steersman_informer::{
    Delivery, Event, InformerState, KeyState, Reason, Subscription, Transform, UntypedInformer,
};
pub use steersman_object::{IndexKey, ListOptions};
pub use unsynced::{InformerFailure, InformerReport, Unsynced, UnsyncedReason};
pub use watch_error::WatchError;
