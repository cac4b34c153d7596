//! Replicas of an operator that share its objects: membership and the assignment of shards on Kubernetes Leases.
//!
//! All objects are divided into 256 slots ([`steersman_object::ShardSlot`]). Each replica is a member of a group and
//! holds a Lease of its own. One Lease of the group has the assignment, which gives each slot to one member. The first
//! member in the order of the names assigns.
//!
//! A member works on a slot if the assignment gives it the slot, and if each former owner has obeyed that assignment,
//! was released, or has expired. So no two members work on one slot at a time (SHARD-1), each slot has an owner at last
//! (SHARD-2), and a member that cannot renew its Lease stops in time (SHARD-3).
//!
//! ```
//! use steersman_api::ClientConfig;
//! use steersman_apiserver::ApiServer;
//! use steersman_object::{ObjectKey, SlotSet};
//! use steersman_shards::{ShardEntry, ShardMember, Shards};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), steersman_shards::Error> {
//! # let server = ApiServer::new();
//! # let client_config = ClientConfig::in_process(server.service(), "default");
//! let shards = Shards::by_namespace("website-operator").on_callers_runtime();
//! let mut member = ShardMember::new(shards, &client_config)?;
//! member.start()?;
//! let gate = member.gate();
//! let mut open = gate.open();
//! tokio::select! {
//!     // Without caches there is nothing to release and to load.
//!     () = gate.keep_loaded(|_| async {}, |_| async {}) => {}
//!     // The only member owns all slots.
//!     _ = open.wait_for(|open| *open == SlotSet::ALL) => {}
//! }
//! let key = ObjectKey::namespaced("shop", "web");
//! assert!(matches!(gate.enter(&key), ShardEntry::Open(_)));
//! member.leave().await;
//! assert!(matches!(gate.enter(&key), ShardEntry::Foreign));
//! # Ok(())
//! # }
//! ```
//!
//! # Reading order
//!
//! - [`error`] has [`Error`], [`options`] [`Shards`], [`status`] [`ShardStatus`], and [`metrics`] [`ShardMetrics`].
//! - `assignment` has the assignment of the slots, and `record` what the Leases of a group say.
//! - `balance` distributes slots over members, and `sightings` judges which members have expired.
//! - `assigner` decides the next assignment, and `machine` all requests of a member and the slots that it works on.
//! - [`gate`] has [`ShardGate`], which controllers ask for each request; `gate_machine` decides.
//! - `requests` sends the requests of the machine, and `driver` runs it.
//! - [`member`] has [`ShardMember`].

pub mod error;
pub mod options;
pub mod status;
pub mod metrics;
mod assignment;
mod record;
mod balance;
mod sightings;
mod assigner;
mod machine;
mod gate_machine;
pub mod gate;
mod requests;
mod driver;
pub mod member;

pub use error::Error;
pub use gate::{ShardEntry, ShardGate, ShardPermit};
pub use member::ShardMember;
pub use metrics::ShardMetrics;
pub use options::Shards;
pub use status::ShardStatus;
