//! Room: the parts of a cluster that are played: its controllers, its scheduler and its kubelets.
//!
//! Invariants: the player acts only through the verbs, so that what it does is what a client could
//! have done, and leaves what others report of a Pod as it is (PLAY-1); it acts on what its own last
//! writes left, so it never makes one Pod too many (PLAY-2); a change that it overslept is found by
//! looking at everything again (PLAY-3); a rollout keeps its bounds at each step (PLAY-4).

mod options;
mod facts;
mod kinds;
mod place;
mod view;
mod world;
mod statuses;
mod pod;
mod pods_of;
mod replica_set;
mod rollout;
mod sets;
mod deployment;
mod revisions;
mod stateful_set;
mod daemon_set;
mod job;
mod endpoints;
mod machine;
mod handle;
mod driver;

pub use handle::{Player, TroubleGuard};
pub use options::{Played, Speed, TROUBLE, Trouble};

pub(crate) use driver::start;
