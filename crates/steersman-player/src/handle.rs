//! Handle: the player of a server, and the troubles that tests wish on Pods.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use steersman_text::selector::LabelSelector;
use steersman_text::status::Status;
use tokio::sync::Notify;

use super::machine::Machine;
use super::options::{Played, Speed, Trouble};
use super::world::{Manners, Wish};

/// The part of a server that plays a cluster: see [`Played`]. Cheap to clone.
#[derive(Clone)]
pub struct Player {
    pub(super) shared: Arc<Shared>,
}

/// What the handle and the task share.
pub(super) struct Shared {
    /// What is played; the machine itself stands still while nobody's runtime drives it.
    pub(super) machine: Mutex<Machine>,
    pub(super) manners: Mutex<Manners>,
    /// Wakes the task where nothing changed in the store.
    pub(super) poked: Notify,
    /// Whether a task drives the machine.
    pub(super) driven: AtomicBool,
    /// Whether there is anything for a task to do.
    pub(super) wanted: bool,
    /// Whether every Pod is to be looked at again.
    pub(super) reconsider: AtomicBool,
}

/// A wish for trouble. Dropping it ends the trouble: the Pods get well.
#[must_use = "dropping the guard ends the trouble"]
pub struct TroubleGuard {
    player: Player,
    id: u64,
    kept: bool,
}

impl Player {
    /// Returns a player that acts once a task [drives](crate::start) it.
    #[must_use]
    pub fn new(played: &Played, seed: u64) -> Self {
        let manners = Manners {
            speed: played.speed,
            seed,
            troubles: Vec::new(),
        };
        let shared = Shared {
            machine: Mutex::new(Machine::new(played.clone())),
            manners: Mutex::new(manners),
            poked: Notify::new(),
            driven: AtomicBool::new(false),
            wanted: played.workloads || played.pods || played.endpoints,
            reconsider: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Lets the Pods that a label selector finds get into trouble, those that run and those to
    /// come; an empty selector finds all, and an empty namespace means every one. Of several wishes
    /// that fit a Pod the last one counts, before the Pod's own annotation.
    ///
    /// # Errors
    /// 400 for a selector that cannot be read.
    pub fn fail_pods(
        &self,
        namespace: &str,
        selector: &str,
        trouble: Trouble,
    ) -> Result<TroubleGuard, Status> {
        let selector = LabelSelector::parse(selector)?;
        let mut manners = self.shared.manners.lock();
        let id = manners.troubles.last().map_or(0, |last| last.id + 1);
        manners.troubles.push(Wish {
            id,
            namespace: namespace.to_owned(),
            selector,
            trouble,
        });
        drop(manners);
        self.reconsider();
        Ok(TroubleGuard {
            player: self.clone(),
            id,
            kept: false,
        })
    }

    /// Lets Pods take these times from now on, also for the step that they are waiting for.
    pub fn set_speed(&self, speed: Speed) {
        self.shared.manners.lock().speed = speed;
        self.reconsider();
    }

    fn reconsider(&self) {
        self.shared.reconsider.store(true, Ordering::Release);
        self.shared.poked.notify_one();
    }
}

impl TroubleGuard {
    /// Leaves the trouble in place for as long as the server lives.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for TroubleGuard {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        self.player
            .shared
            .manners
            .lock()
            .troubles
            .retain(|wish| wish.id != self.id);
        self.player.reconsider();
    }
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player")
            .field("driven", &self.shared.driven)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TroubleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TroubleGuard")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
