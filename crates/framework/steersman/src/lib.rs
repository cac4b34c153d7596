//! A framework for Kubernetes operators.
//!
//! A [`Manager`] owns one shared cache, a client that reads from that cache and writes to the api-server, and
//! controllers that turn events of a cluster into calls of a [`Reconciler`]. Names and structure follow Go's
//! controller-runtime.
//!
//! # An operator
//!
//! This operator keeps a ConfigMap with the text of each `Greeting`, and marks the Greeting as published:
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use steersman::{
//!     Action, ClientConfig, Context, Controller, CustomResource, Error, Manager, Reconciler, Request, predicate,
//!     shutdown_signal,
//! };
//!
//! /// What users write.
//! #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
//! #[kube(group = "hello.example.com", version = "v1", kind = "Greeting", namespaced)]
//! #[kube(status = "GreetingStatus")]
//! struct GreetingSpec {
//!     text: String,
//! }
//!
//! /// What the operator says about it.
//! #[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
//! struct GreetingStatus {
//!     published: bool,
//! }
//!
//! struct Publisher;
//!
//! impl Reconciler for Publisher {
//!     async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
//!         let client = ctx.client();
//!         let Some(greeting) = client.get_opt::<Greeting>(&request.key).await? else {
//!             return Ok(Action::done()); // Deleted, and its ConfigMap with it.
//!         };
//!         // Creates the ConfigMap, or sends what differs; sends nothing if nothing differs.
//!         let text = greeting.spec.text.clone();
//!         let publish = |config: &mut ConfigMap| {
//!             config.data.get_or_insert_default().insert("text".to_owned(), text.clone());
//!         };
//!         client.ensure(&request.key, publish).owned_by(&greeting).await?;
//!         let say_so = |greeting: &mut Greeting| {
//!             greeting.status.get_or_insert_default().published = true;
//!         };
//!         client.status().modify(&greeting, say_so).await?;
//!         Ok(Action::requeue_after(Duration::from_secs(300)))
//!     }
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let manager = Manager::builder(ClientConfig::infer().await?).build()?;
//!     let publisher = Controller::builder::<Greeting>()
//!         .with_predicates(predicate::generation_changed())
//!         .owns::<ConfigMap>()
//!         .build(Publisher)?;
//!     manager.add_controller(publisher)?;
//!     manager.start(shutdown_signal()).await?;
//!     Ok(())
//! }
//! ```
//!
//! Such a crate depends on `steersman`, `k8s-openapi` (with the version of the Kubernetes API it is written for,
//! such as `features = ["latest"]`), `schemars`, `serde`, `serde_json` and `tokio`.
//!
//! # Modules
//!
//! The names that a first operator needs are at the root. All others are in the modules of their crates, here in
//! the order in which an event passes through them: [`object`], [`api`], [`informer`], [`cache`], [`client`],
//! [`desired`], [`workqueue`], [`controller`], [`events`], [`lease`], [`shards`],
//! [`serve`], [`webhook`], [`crds`], [`manager`].
//! The feature `cli` adds the module `cli`: flags, environment variables, a configuration file and logging for the
//! `main` of an operator, and the feature `otlp` the export of traces. This crate has no behaviour of its own; [`guide`] is the users' guide.
#![doc = include_str!("guide/derive.md")]

// The name of this crate in the output of macros, for the tests of the guide.
#[cfg(test)]
extern crate self as steersman;

pub mod guide;

pub use steersman_api as api;
pub use steersman_cache as cache;
#[cfg(feature = "cli")]
pub use steersman_cli as cli;
pub use steersman_client as client;
pub use steersman_controller as controller;
pub use steersman_crds as crds;
pub use steersman_desired as desired;
pub use steersman_events as events;
pub use steersman_informer as informer;
pub use steersman_lease as lease;
pub use steersman_manager as manager;
pub use steersman_object as object;
#[cfg(feature = "otlp")]
pub use steersman_otlp as otlp;
pub use steersman_serve as serve;
pub use steersman_shards as shards;
pub use steersman_webhook as webhook;
pub use steersman_workqueue as workqueue;

pub use steersman_api::ClientConfig;
pub use steersman_cache::{ByObject, CacheOptions};
pub use steersman_client::{Client, finalizer, owner};
/// The handlers of watches; see [`handler`].
pub use steersman_controller::handler::{indexed, itself, mapped, mapped_async, owner};
pub use steersman_controller::{
    Action, Context, Controller, Error, Reconciler, Request, Watch, handler, predicate, source,
};
pub use steersman_manager::{Manager, shutdown_signal};
pub use steersman_object::{
    Kind, LabelSelector, ListOptions, ObjectKey, OwnedKinds, report, status_conditions,
};

pub use steersman_derive::{CustomResource, KubeSchema, versioned};

// The other crates that appear in signatures of this framework.
pub use futures;
pub use http;
pub use k8s_openapi;
pub use kube_core;
pub use prometheus;
pub use schemars;
pub use serde;
pub use serde_json;
pub use steersman_api::kube_client;
pub use tokio_util::sync::CancellationToken;
pub use tower;

/// Names in the output of macros.
#[doc(hidden)]
pub mod __private {
    pub use kube_derive::{CustomResource, KubeSchema};
    pub use steersman_derive::discard;
}
