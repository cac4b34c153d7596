//! A client that reads from the cache and writes to the API server.
//!
//! ```no_run
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_client::{Client, Error};
//! use steersman_object::ObjectKey;
//!
//! async fn greet(client: &Client, key: &ObjectKey) -> Result<(), Error> {
//!     // Creates the object, sends what differs, or sends nothing.
//!     let ensured = client
//!         .ensure(key, |config: &mut ConfigMap| {
//!             config.data.get_or_insert_default().insert("text".to_owned(), "hello".to_owned());
//!         })
//!         .await?;
//!     println!("written: {}", ensured.is_changed());
//!
//!     // A read from memory, which has the write.
//!     let config = client.get::<ConfigMap>(key).await?;
//!     println!("{:?}", config.data);
//!     Ok(())
//! }
//! ```
//!
//! A [`Client`] reads from memory and writes over the network (CLIENT-1). A write changes the cache only when the API
//! server's watch event about it arrives. A reconciler still reads its own writes: a cached read waits until the cache
//! has seen the earlier writes of the same request key (RYOW-1, [`ReadConsistency`]). The cache may not show the latest
//! writes of other clients yet; [`Client::live`] reads from the server itself.
//!
//! The verbs used most:
//!
//! - [`Client::get`], [`get_opt`](Client::get_opt), [`list`](Client::list): shared objects from memory.
//! - [`Client::ensure`]: creates an object, or sends the difference to the existing one. Nothing is sent if there is
//!   no difference. [`owned_by`](EnsureRequest::owned_by) sets the controller reference.
//! - [`Client::apply`], [`apply_part`](Client::apply_part): server-side apply. With
//!   [`if_changed`](ApplyRequest::if_changed) nothing is sent if the object is in the state in which the apply would
//!   leave it (CLIENT-10, CLIENT-12).
//! - [`Client::status`]: writes of the status subresource. Its [`modify`](StatusClient::modify) sends only the
//!   difference.
//! - [`Client::add_finalizer`], [`Client::remove_finalizer`]: change one finalizer of an object and leave its other
//!   finalizers in place.
//! - [`Client::await_condition`], [`wait_deleted`](Client::wait_deleted), [`watch`](Client::watch): for code outside
//!   reconcilers.
//! - [`owner::set_controller_reference`]: lets the garbage collector delete an object with its owner.
//!
//! Changes through a closure ([`ensure`](Client::ensure), [`modify`](Client::modify), the status, finalizers) start
//! from a cached object. If the difference writes a whole list, the patch carries the resource version that it was
//! computed from. If that version is not the newest, the object is read live and the closure runs again, a bounded
//! number of times (CLIENT-2).
//!
//! A write that was sent is finished by a task of its own, and is never repeated if the server may have executed it
//! (CLIENT-7).
//!
//! # Reading order
//!
//! - [`mod@write`] has [`Write`], one write with its outcome, and [`WriteObserver`], which is called for every write;
//!   `write::outcome` derives the outcome of a write from the server's answer.
//! - [`mod@wait_observer`] has [`ClientWait`], a wait for the server or for the cache, and [`WaitObserver`].
//! - [`condition`] has [`Condition`], a condition of an object; [`conditions`] has the conditions that programs wait
//!   for most.
//! - [`error`] has [`Error`].
//! - [`consistency`] has [`ReadConsistency`]: which writes a cached read must see. [`metrics`] has [`ClientMetrics`].
//! - [`options`] has [`ClientOptions`] and [`OptimisticLock`]; `field_manager` derives the names of field managers.
//! - [`kinds`] has [`KindSource`]: how a client learns the kind of an object, from its type or from a value.
//! - `namespace` fills in the namespace of a client that has one.
//! - `patch` has the bodies of patches: `patch::diff` computes merge patches, `patch::strategic` strategic merge
//!   patches by the merge keys in `src/patch/strategic/lists.txt`, which `cargo xtask schemas` writes, and
//!   `patch::change` turns a mutated copy into a patch and decides when to try again. `patch::document` makes the body
//!   of an apply, and reads the conflicts of a refused one; `patch::extract` finds the fields that one manager owns.
//!   `patch::status_field` finds out whether a type has a status.
//! - `applied` remembers the last apply of each field manager to each object.
//! - `spans` makes the spans of reads, writes and waits for traces.
//! - `own_writes` has the writes that the cache has not seen yet: `own_writes::unseen_writes` decides what a read must
//!   see, `own_writes::write_tracker` records the writes and lets reads wait for them, and
//!   `own_writes::unseen_writes::kept_answer` keeps the server's answers to writes, which a get returns instead of
//!   waiting.
//! - [`owner`] sets, finds and removes owner references.
//! - [`finalizer`] adds and removes finalizers, and tells from an object whether the owner of a finalizer has to add
//!   it, reconcile, or clean up.
//! - `send` sends every write in a task of its own and reports the outcome to the observers; it repeats a request if
//!   the server names a time (`Retry-After`).
//! - `ensure` is create-or-patch: it reads, changes a copy, sends the difference, and reads again after a conflict.
//! - `shared` has the state that all handles of one client share; `shared::apply` sends applies.
//! - `read` has the reads: `read::live` asks the server, and `read::cached` reads from the cache once it has seen the
//!   writes that the read must see.
//! - [`mod@watch`] has [`ObjectWatch`], a watch over a cache of its own; `wait` waits until an object meets a
//!   condition, over such a cache.
//! - [`client`] has [`Client`], with each group of verbs in a file: `client::ensures` has create-or-patch and
//!   `client::applies` server-side apply, each with its options; `client::status` has the verbs of the status
//!   subresource, and `client::subresource` those of any subresource.

pub mod write;
pub mod wait_observer;
pub mod condition;
pub mod conditions;
pub mod error;
pub mod consistency;
pub mod metrics;
pub mod options;
mod field_manager;
pub mod kinds;
mod namespace;
mod patch;
mod applied;
mod spans;
mod own_writes;
pub mod owner;
pub mod finalizer;
mod send;
mod ensure;
mod shared;
mod read;
pub mod watch;
mod wait;
pub mod client;

pub use client::applies::ApplyRequest;
pub use client::ensures::{EnsureAbsentRequest, EnsureRequest};
pub use client::status::StatusClient;
pub use client::subresource::Subresource;
pub use client::{Client, KindClient};
pub use condition::{Condition, LastSeen};
pub use consistency::ReadConsistency;
pub use ensure::{Ensured, EnsuredWithStatus};
pub use error::{Error, FieldConflict};
pub use field_manager::{InvalidFieldManager, check_field_manager};
pub use kinds::{KindSource, OneKind, TypedKinds};
pub use metrics::ClientMetrics;
pub use options::{ClientOptions, OptimisticLock};
pub use patch::extract::extract;
pub use read::live::{Live, Page, Pages};
pub use wait_observer::{ClientWait, WaitCause, WaitObserver};
pub use watch::ObjectWatch;
pub use write::{RequestId, Write, WriteObserver, WriteOutcome, WrittenObject};
