//! Handle: the simulator of a server, by which tests make Pods fail and change the speed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use steersman_apimachinery::selector::LabelSelector;
use steersman_apimachinery::status::Status;
use tokio::sync::Notify;

use super::actions::turn_context::{PlayerSettings, PodFailureRequest};
use super::machine::Machine;
use super::options::{Played, PodFailure, Speed};

/// The simulator, which acts as the controllers, scheduler and kubelets that [`Played`] names. Cheap to clone.
#[derive(Clone)]
pub struct Simulator {
    pub(super) shared: Arc<SharedSimulator>,
}

pub(super) struct SharedSimulator {
    /// The state of the simulator between turns. Its clock stands still while no task drives it.
    pub(super) machine: Mutex<Machine>,
    pub(super) settings: Mutex<PlayerSettings>,
    /// Wakes the driving task after a change of the settings, which is no change of the store.
    pub(super) wake_up: Notify,
    pub(super) is_driven: AtomicBool,
    /// Whether any simulated part acts in the driving task; some parts act within requests only.
    pub(super) needs_task: bool,
    /// Whether the next turn must process every Pod again, because failures or the speed changed.
    pub(super) reconsider: AtomicBool,
}

/// Keeps a requested failure of Pods alive. When the guard is dropped, the failure ends and the Pods recover.
#[derive(Debug)]
#[must_use = "dropping the guard ends the failure"]
pub struct PodFailureGuard {
    simulator: Simulator,
    id: u64,
    kept: bool,
}

impl Simulator {
    /// Returns a simulator, which acts once a task [drives](crate::start) it. `seed` decides the jitter of Pods.
    #[must_use]
    pub fn new(played: &Played, seed: u64) -> Self {
        let settings = PlayerSettings {
            speed: played.speed,
            seed,
            failures: Vec::new(),
        };
        let shared = SharedSimulator {
            machine: Mutex::new(Machine::new(played.clone())),
            settings: Mutex::new(settings),
            wake_up: Notify::new(),
            is_driven: AtomicBool::new(false),
            needs_task: played.workloads || played.pods || played.endpoints,
            reconsider: AtomicBool::new(false),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Makes the Pods fail that a label selector matches, also Pods created later. An empty selector matches every Pod,
    /// an empty namespace means every namespace. If several calls match a Pod, the newest wins; all win over the Pod's
    /// annotation `play.steersman/pod-failure`.
    ///
    /// # Errors
    /// 400 for a label selector that does not parse.
    pub fn fail_pods(
        &self,
        namespace: &str,
        selector: &str,
        failure: PodFailure,
    ) -> Result<PodFailureGuard, Status> {
        let selector = LabelSelector::parse(selector)?;
        let mut settings = self.shared.settings.lock();
        let id = settings.failures.last().map_or(0, |last| last.id + 1);
        settings.failures.push(PodFailureRequest {
            id,
            namespace: namespace.to_owned(),
            selector,
            failure,
        });
        drop(settings);
        self.reconsider();
        Ok(PodFailureGuard {
            simulator: self.clone(),
            id,
            kept: false,
        })
    }

    /// Changes how long Pods take to be scheduled, start, complete and stop, also for steps that have begun.
    pub fn set_speed(&self, speed: Speed) {
        self.shared.settings.lock().speed = speed;
        self.reconsider();
    }

    fn reconsider(&self) {
        self.shared.reconsider.store(true, Ordering::Release);
        self.shared.wake_up.notify_one();
    }
}

impl PodFailureGuard {
    /// Keeps the failure as long as the server runs, even after the guard is dropped.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for PodFailureGuard {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let mut settings = self.simulator.shared.settings.lock();
        settings.failures.retain(|request| request.id != self.id);
        drop(settings);
        self.simulator.reconsider();
    }
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator")
            .field("driven", &self.shared.is_driven)
            .finish_non_exhaustive()
    }
}
