//! One informer per kind, shared by every reader and controller; reads answer from memory.
//!
//! A [`Cache`] is declared before it runs: which kinds, in which namespaces, under which selectors,
//! with which field indexes. Declaring does no I/O. [`Cache::run`] then starts every declared informer, and
//! whatever is declared later starts at once. However many controllers and readers use a kind, there
//! is one informer for each (kind, namespace) the options name (`CACHE-1`).
//!
//! Typed, dynamic and metadata-only reads are views of that one informer: [`Cache::get`] and
//! [`Cache::list`] by type, [`Cache::of`] as any type of a kind known only at runtime, and
//! [`Cache::metadata`], for which the server is asked for metadata alone as long as nobody needs
//! more.
//!
//! What a read can answer:
//!
//! - The object, as a shared [`Arc`](std::sync::Arc). Nobody can change it, so nobody needs a copy.
//! - [`Error::NotFound`]: the api-server has no such object, or a selector of the cache hides it;
//!   [`Error::scoped_by`] tells which of the two is possible.
//! - [`Error::Malformed`]: it is there, and does not decode. It is not absent.
//! - [`Error::OutsideScope`]: the cache never looks into that namespace.
//! - [`Error::Unavailable`], at once: the kind never synced and its informer knows why (403, a CRD that is not
//!   installed, an unreachable server). Other kinds are not affected (`CACHE-2`).
//! - [`Error::SyncTimeout`]: the first list did not end in time.
//! - [`Error::Stopped`]: the cache has stopped, and answers nothing from what it held (`CACHE-10`).
//!
//! A cached read may be older than what the server has; it is never older than an event that was
//! handed to a controller.
//!
//! Modules, words first:
//!
//! - [`unsynced`] has [`Unsynced`], why a kind is not there.
//! - [`error`] has [`Error`].
//! - `field_index` has one named index of a kind, as each informer gets it.
//! - [`metrics`] has [`CacheMetrics`], what caches and their informers count.
//! - [`settings`] has [`Settings`], what can be said of all kinds, one kind, or one namespace.
//! - [`watch_error`] has [`WatchError`], what a hook is told of a request that failed.
//! - [`options`] has [`CacheOptions`] and [`ByObject`].
//! - [`listed`] has [`Listed`], what a list found, and [`Versions`], how new it is.
//! - `coverage` decides which informers a kind gets and what they can see.
//! - `failure_advice` says what to do about a kind that does not sync.
//! - `type_map` keeps what an informer is looked at as; it has the only `Any` downcast.
//! - `registry` keeps one entry per kind and namespace, started once.
//! - `idle_informers` says when an informer that nobody declared has been of no use for long enough.
//! - `written_versions` says how new the first list of a kind has to be.
//! - `informer_entry` runs one informer, whatever it is looked at as.
//! - `shared` declares, runs, ends and waits: what the handles of one cache share.
//! - `live_reads` reads from the server in the scope of one informer.
//! - [`reads`] has [`Reads`], which reads one kind as one type.
//! - [`preflight_report`] has [`Preflight`], what a cache may not read.
//! - [`cache`] has the handle, [`Cache`].
//! - [`preflight`] asks a server what the cache may read.
//! - [`removal`] ends informers while the cache goes on.
//! - `internal` is what other crates of this workspace need of a cache.

pub mod unsynced;
pub mod error;
mod field_index;
pub mod metrics;
pub mod settings;
pub mod watch_error;
pub mod options;
pub mod listed;
mod coverage;
mod failure_advice;
mod type_map;
mod registry;
mod idle_informers;
mod written_versions;
mod informer_entry;
mod shared;
mod live_reads;
pub mod reads;
pub mod preflight_report;
pub mod cache;
pub mod preflight;
pub mod removal;
#[doc(hidden)]
pub mod internal;

pub use cache::{Begun, Cache};
pub use error::Error;
pub use listed::{Listed, Versions};
pub use metrics::CacheMetrics;
pub use options::{ByObject, CacheOptions, Undeclared};
pub use preflight_report::{MissingRule, Preflight};
pub use reads::Reads;
pub use settings::Settings;
pub use steersman_informer::{KeyState, Mirror, Reason, State as InformerState, Transform};
pub use steersman_object::{IndexKey, Selection};
pub use unsynced::{Trouble, Unsynced, UnsyncedReason};
pub use watch_error::WatchError;
