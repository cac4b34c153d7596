//! The simulator, which acts for the controllers, the scheduler and the kubelets of a cluster.
//!
//! ```
//! use std::time::Duration;
//!
//! use serde_json::json;
//! use steersman_apiserver::ApiServer;
//! use steersman_apiserver::play::{Played, Speed, PodFailure};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), steersman_apiserver::status::Status> {
//! let server = ApiServer::builder()
//!     .play(Played::everything().speed(Speed::brisk()))
//!     .build();
//! let labels = json!({"app": "web"});
//! server.create(json!({
//!     "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
//!     "spec": {
//!         "replicas": 3,
//!         "selector": {"matchLabels": labels},
//!         "template": {
//!             "metadata": {"labels": labels},
//!             "spec": {"containers": [{"name": "web", "image": "web:1"}]},
//!         },
//!     },
//! }))?;
//! let ready = || server.get("deployments.apps", "default", "web").unwrap()["status"]["readyReplicas"].clone();
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert_eq!(ready(), 3);
//!
//! // Its Pods crash for as long as the guard lives.
//! let crashing = server.simulator().fail_pods("default", "app=web", PodFailure::CrashLoop)?;
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert!(ready().is_null());
//! drop(crashing);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//! assert_eq!(ready(), 3);
//! # Ok(())
//! # }
//! ```
//!
//! A part of the embedded API server (`steersman-apiserver`, feature `simulator`): its names may change with any version.
//!
//! Invariants: the simulator acts only through the verbs, so that a client could have done each of its writes, and
//! keeps the statuses of Pods that clients report (PLAY-1); it reads its own last writes before it acts, so it never
//! creates one Pod too many (PLAY-2); it finds a missed change by looking at every object again (PLAY-3); a rollout
//! keeps its bounds at each step (PLAY-4); no request waits for more than a few of the simulator's writes (PLAY-7).
//!
//! # Reading order
//!
//! - `options` has the simulated parts of a cluster, their speed, and simulated failures of Pods.
//! - `state` remembers the objects of the store: `state::cluster_facts` decides which objects a change affects,
//!   `state::work_queue` holds them, and `state::nodes` chooses nodes for Pods.
//! - `actions` has the writes; `actions::turn_context` is what the functions of a turn read and write.
//! - `pods` has the scheduler (`pods::pod`), the kubelets and the binder of volumes.
//! - `workloads` and `services`: each file is one controller, or a part of one.
//! - `machine` is one turn: it reads the changes of the store, and reconciles the objects that they concern.
//! - `handle` has [`Simulator`]; `driver` runs a turn after each change, and when a timer is due.

mod options;
mod state;
mod actions;
mod pods;
mod workloads;
mod services;
mod machine;
mod handle;
mod driver;

pub use handle::{PodFailureGuard, Simulator};
pub use options::{EXIT_CODE, POD_FAILURE, Played, PodFailure, Speed};

pub use driver::{PlayedServer, start};
