//! Desired sets: the children that a Kubernetes object shall have.
//!
//! A reconciler makes a [`DesiredSet`] of the object that it reconciles, adds the children that it shall have in
//! ordinary Rust, and applies the set:
//!
//! ```no_run
//! use k8s_openapi::api::apps::v1::Deployment;
//! use k8s_openapi::api::batch::v1::Job;
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use steersman_client::Client;
//! use steersman_desired::{Child, DesiredSet, SetOutcome};
//!
//! # fn settings() -> ConfigMap { unimplemented!() }
//! # fn migration() -> Job { unimplemented!() }
//! # fn servers() -> Deployment { unimplemented!() }
//! async fn children(client: &Client, owner: &ConfigMap) -> Result<SetOutcome, steersman_desired::Error> {
//!     let mut set = DesiredSet::new(owner, "web.example.com/children")
//!         .owns::<ConfigMap>()
//!         .owns::<Job>()
//!         .owns::<Deployment>();
//!     let settings = set.add(Child::of(&settings()));
//!     let migration = set.add(Child::of(&migration()).after(settings));
//!     set.add(Child::of(&servers()).after(migration));
//!     set.apply(client).await
//! }
//! ```
//!
//! # What it promises
//!
//! - **SET-1** Only a child is deleted: an object that the owner controls by its uid, of the key or with the label of
//!   the set, in the state in which it was judged.
//! - **SET-2** An object of the name of a child that the owner does not control is not applied, even if the cache has
//!   not seen the object yet, or a selector of the cache hides it.
//! - **SET-3** Children that are not in the set are deleted only in a run in which every child of the set was applied.
//! - **SET-4** A child is applied after the children that it comes after are ready, or gone.
//! - **SET-5** A set of which all children are as they were applied sends no request.
//!
//! # Reading order
//!
//! - [`readiness`] has [`Readiness`]: whether an object is as its spec says, by the rules of kstatus.
//! - [`child_id`] has [`ChildId`], and [`error`] has [`Error`].
//! - [`outcome`] has [`SetOutcome`], what became of each child; `conditions` derives the conditions of the owner from
//!   it.
//! - [`child`] has [`Child`] and [`AbsentChild`].
//! - `owner` completes the documents of children, and tells children from other objects.
//! - `schedule` decides which child may start.
//! - `member` applies or deletes one child; `inventory` finds those that exist.
//! - `plan` has the content of a set, and `run` runs it once.
//! - [`set`] has [`DesiredSet`], the handle.

pub mod readiness;
pub mod child_id;
pub mod error;
pub mod outcome;
mod conditions;
pub mod child;
mod owner;
mod schedule;
mod member;
mod inventory;
mod plan;
mod run;
pub mod set;

pub use child::{AbsentChild, Child};
pub use child_id::ChildId;
pub use error::Error;
pub use outcome::{ChildOutcome, ChildState, SetOutcome};
pub use readiness::Readiness;
pub use set::DesiredSet;
