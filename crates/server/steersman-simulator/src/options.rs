//! Words: options of the simulator: the simulated parts of a cluster, their speed, and failures of Pods.

use std::fmt;
use std::time::Duration;

use steersman_registry::RegistryOptions;

/// The annotation of a Pod (or of a Pod template) with a value of [`PodFailure`], which makes the Pod fail.
pub const POD_FAILURE: &str = "play.steersman/pod-failure";

/// The annotation of a Pod (or of a Pod template) with the exit code of its containers, from 0 to 255, when the Pod
/// completes, fails or crashes. A Pod with a code other than 0 fails. Default: 0; 1 for a requested failure.
pub const EXIT_CODE: &str = "play.steersman/exit-code";

/// Declares a method for each field, which sets that field and returns `self`.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $kind:ty;)+) => {
        $($(#[$doc])*
        pub fn $field(mut self, $field: $kind) -> Self {
            self.$field = $field;
            self
        })+
    };
}

/// The parts of a cluster that the server simulates. By default these are the parts without which the API behaves
/// unlike any cluster: the garbage collector, the namespace controller, the controllers of aggregated ClusterRoles and
/// of ResourceQuotas, and the storage version migrator.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "this does nothing until a server is built with it"]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent parts of a cluster"
)]
pub struct Played {
    pub(crate) garbage_collection: bool,
    pub(crate) namespaces: bool,
    pub(crate) roles: bool,
    pub(crate) quotas: bool,
    pub(crate) storage_migrations: bool,
    pub(crate) accounts: bool,
    pub(crate) workloads: bool,
    pub(crate) pods: bool,
    pub(crate) endpoints: bool,
    pub(crate) events: bool,
    pub(crate) volumes: bool,
    pub(crate) nodes: u32,
    pub(crate) speed: Speed,
}

/// How long the steps in the life of a simulated Pod take, measured by tokio's clock. Default: no time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[must_use = "this does nothing until a server is built with it"]
pub struct Speed {
    pub(crate) schedule: Duration,
    pub(crate) start: Duration,
    pub(crate) complete: Duration,
    pub(crate) stop: Duration,
    pub(crate) jitter: f64,
}

/// A failure of a Pod, requested by its annotation [`POD_FAILURE`] or by
/// [`Simulator::fail_pods`](super::Simulator::fail_pods).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PodFailure {
    /// `CrashLoopBackOff`: containers exit with [`EXIT_CODE`] as soon as they start, and restart after 10 s, 20 s and
    /// so on, up to 5 min.
    CrashLoop,
    /// `ImagePullBackOff`: the images cannot be pulled, so no container starts.
    ImagePull,
    /// `Failed`: containers exit with [`EXIT_CODE`], and the Pod gets the phase `Failed`.
    Failed,
    /// `NeverReady`: containers run and never become ready.
    NeverReady,
    /// `Unschedulable`: no node fits the Pod.
    Unschedulable,
    /// `Unstoppable`: containers ignore the signal to stop, so a delete lasts for the whole grace period.
    Unstoppable,
}

impl Default for Played {
    fn default() -> Self {
        Self {
            garbage_collection: true,
            namespaces: true,
            roles: true,
            quotas: true,
            storage_migrations: true,
            ..Self::nothing()
        }
    }
}

impl Played {
    /// Simulates no part of a cluster, like a kube-apiserver without kube-controller-manager, scheduler and kubelets.
    pub fn nothing() -> Self {
        Self {
            garbage_collection: false,
            namespaces: false,
            roles: false,
            quotas: false,
            storage_migrations: false,
            accounts: false,
            workloads: false,
            pods: false,
            endpoints: false,
            events: false,
            volumes: false,
            nodes: 1,
            speed: Speed::instant(),
        }
    }

    /// Simulates every part of a cluster, with one node, and with Pods that start without delay.
    pub fn everything() -> Self {
        Self {
            accounts: true,
            workloads: true,
            pods: true,
            endpoints: true,
            events: true,
            volumes: true,
            ..Self::default()
        }
    }

    /// Sets in `options` which controllers are simulated within requests: these run in the registry, not in the task.
    pub fn set_controllers(&self, options: &mut RegistryOptions) {
        options.collect_garbage = self.garbage_collection;
        options.end_namespaces = self.namespaces;
        options.gather_roles = self.roles;
        options.count_quotas = self.quotas;
        options.migrate_storage = self.storage_migrations;
        options.furnish_namespaces = self.accounts;
        let controllers = self.workloads.then_some("controller-manager");
        let scheduler = self.pods.then_some("scheduler");
        options.played_components = controllers.into_iter().chain(scheduler).collect();
    }

    setters! {
        /// Simulates the garbage collector within the request that deletes an owner: the owner's dependents are deleted
        /// or orphaned, or block the deletion of the owner.
        garbage_collection: bool;

        /// Simulates the namespace controller, which empties and removes a deleted namespace: within the request that
        /// deletes it, or after that request if the server does not [remove at once](RegistryOptions::remove_at_once).
        namespaces: bool;

        /// Simulates the controller of ClusterRoles with an `aggregationRule`: after a request that changes a role, it
        /// copies the rules of the selected roles.
        roles: bool;

        /// Simulates the controller of ResourceQuotas, which writes the limits and the usage into their status within
        /// the request that changes them. Admission reads the limits from the status: without this controller, as on a
        /// kube-apiserver that runs alone, a quota limits nothing until a client writes its status.
        quotas: bool;

        /// Simulates the storage version migrator, if the server serves StorageVersionMigrations. The migrator stores
        /// each object of a resource anew, in the storage version.
        storage_migrations: bool;

        /// Simulates the controllers that create a ServiceAccount `default` and, once the server listens, the ConfigMap
        /// `kube-root-ca.crt` in each namespace, within the request that creates the namespace. As in a cluster, a new
        /// Pod then needs a ServiceAccount, by default `default`, and its containers mount the token of that account.
        accounts: bool;

        /// Simulates the controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs and
        /// PodDisruptionBudgets.
        workloads: bool;

        /// Simulates the scheduler and the kubelets: Pods are bound to a node, run, complete, and terminate when they
        /// are deleted.
        pods: bool;

        /// Simulates the controllers that write EndpointSlices and Endpoints of Services with a selector.
        endpoints: bool;

        /// Simulates the volume binder: a PersistentVolumeClaim is bound to a matching PersistentVolume, or to a new
        /// one, and Pods wait until their claims are bound.
        volumes: bool;

        /// Writes the Events of the simulated components, which `kubectl describe` shows: four more writes per Pod. An
        /// Event is deleted after an hour. On in [`Played::everything`], otherwise off by default.
        events: bool;

        /// Sets the number of Nodes that the simulator creates, named `node-1` and so on. Pods are also scheduled to
        /// the Nodes that clients create. Default 1.
        nodes: u32;

        /// Sets how long the steps in the life of a Pod take. Default [`Speed::instant`].
        speed: Speed;
    }
}

impl Speed {
    /// Returns the speed at which all steps of a Pod's life take no time.
    pub fn instant() -> Self {
        Self::default()
    }

    /// Returns the speed of a fast cluster: a Pod is scheduled after 10 ms, started after 100 ms,
    /// completed after 1 s, and stopped after 50 ms.
    pub fn brisk() -> Self {
        Self {
            schedule: Duration::from_millis(10),
            start: Duration::from_millis(100),
            complete: Duration::from_secs(1),
            stop: Duration::from_millis(50),
            jitter: 0.0,
        }
    }

    setters! {
        /// Sets the time from a Pod's creation to its binding to a node. Default 0.
        schedule: Duration;

        /// Sets the time from a Pod's binding to its readiness. Default 0.
        start: Duration;

        /// Sets how long a Pod that completes by itself runs, such as a Pod of a Job. Default 0.
        complete: Duration;

        /// Sets how long a deleted Pod takes to stop, at most its grace period. Default 0.
        stop: Duration;
    }

    /// Sets the fraction, from 0 to 1, by which durations vary: with 0.1, a duration of a second is between 0.9 s and
    /// 1.1 s. The variation of each Pod follows from the seed of the server. Default 0.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = part.clamp(0.0, 1.0);
        self
    }

    /// Returns `time` changed by at most the fraction `jitter`: shortest for `random` 0, longest for `u64::MAX`.
    pub(super) fn vary(&self, time: Duration, random: u64) -> Duration {
        if self.jitter == 0.0 || time.is_zero() {
            return time;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a fraction of the range; its last bits do not matter"
        )]
        let share = random as f64 / u64::MAX as f64;
        time.mul_f64(1.0 + self.jitter * (2.0 * share - 1.0))
    }
}

impl PodFailure {
    const ALL: [Self; 6] = [
        Self::CrashLoop,
        Self::ImagePull,
        Self::Failed,
        Self::NeverReady,
        Self::Unschedulable,
        Self::Unstoppable,
    ];

    /// Returns the value of the annotation [`POD_FAILURE`] for this failure, for instance `CrashLoopBackOff`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CrashLoop => "CrashLoopBackOff",
            Self::ImagePull => "ImagePullBackOff",
            Self::Failed => "Failed",
            Self::NeverReady => "NeverReady",
            Self::Unschedulable => "Unschedulable",
            Self::Unstoppable => "Unstoppable",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for PodFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
