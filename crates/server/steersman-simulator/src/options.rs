//! Words: options of the simulator: which parts of a cluster it plays, how fast, and what goes wrong
//! with Pods.

use std::fmt;
use std::time::Duration;

use steersman_registry::RegistryOptions;

/// The annotation of a Pod (or of a Pod template) that names its [`PodFailure`].
pub const POD_FAILURE: &str = "play.steersman/pod-failure";

/// The annotation of a Pod (or of a Pod template) with the exit code of its containers, for Pods
/// that are meant to complete, for [`PodFailure::Failed`] and for crashes. With a code other than 0
/// the Pod fails. Default: 0, and 1 for a failure.
pub const EXIT_CODE: &str = "play.steersman/exit-code";

/// The parts of a cluster that the server plays. The default plays the parts without which the API
/// behaves differently than in any cluster: the garbage collector, the namespace controller, the
/// controllers of aggregated ClusterRoles and of ResourceQuotas, and the storage version migrator.
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

/// The durations of the steps in the life of a played Pod, measured by tokio's clock.
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
    /// `CrashLoopBackOff`: containers exit with [`EXIT_CODE`] as soon as they start, and are
    /// restarted after 10 s, 20 s and so on up to 5 min.
    CrashLoop,
    /// `ImagePullBackOff`: the images cannot be pulled.
    ImagePull,
    /// `Failed`: containers exit with [`EXIT_CODE`], and the Pod fails.
    Failed,
    /// `NeverReady`: containers run and never become ready.
    NeverReady,
    /// `Unschedulable`: no node fits the Pod.
    Unschedulable,
    /// `Unstoppable`: containers ignore the signal to stop, so a delete takes the whole grace
    /// period.
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
    /// Plays no part, as behind a kube-apiserver that runs alone.
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

    /// Plays every part, with one node, and Pods that run at once.
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

    /// Tells the registry which of the played controllers it runs itself, within the requests that give them work.
    pub fn set_controllers(&self, options: &mut RegistryOptions) {
        options.collect_garbage = self.garbage_collection;
        options.end_namespaces = self.namespaces;
        options.gather_roles = self.roles;
        options.count_quotas = self.quotas;
        options.migrate_storage = self.storage_migrations;
        options.furnish_namespaces = self.accounts;
        let components = [
            ("controller-manager", self.workloads),
            ("scheduler", self.pods),
        ];
        let played = components.into_iter().filter(|(_, on)| *on);
        options.played_components = played.map(|(name, _)| name).collect();
    }

    /// Plays the garbage collector, within the request that makes an object garbage: dependents of
    /// a deleted owner are deleted or orphaned, or block the deletion.
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.garbage_collection = on;
        self
    }

    /// Plays the namespace controller, within the request that deletes a namespace or, in a server that
    /// does not [remove at once](RegistryOptions::remove_at_once), after that request: empties and
    /// removes the namespace.
    pub fn namespaces(mut self, on: bool) -> Self {
        self.namespaces = on;
        self
    }

    /// Plays the controller of ClusterRoles with an `aggregationRule`, after the request that
    /// changes a role: copies the rules of the selected roles.
    pub fn roles(mut self, on: bool) -> Self {
        self.roles = on;
        self
    }

    /// Plays the controller of ResourceQuotas, within the request that changes the usage: writes
    /// the limits and the usage into the status. Admission reads the limits from the status, so
    /// without this controller a quota limits nothing until a client writes its status, as on a
    /// kube-apiserver that runs alone.
    pub fn quotas(mut self, on: bool) -> Self {
        self.quotas = on;
        self
    }

    /// Plays the storage version migrator, if the server serves StorageVersionMigrations: it stores the
    /// objects of a resource anew, one at a time.
    pub fn storage_migrations(mut self, on: bool) -> Self {
        self.storage_migrations = on;
        self
    }

    /// Plays the controllers that give each namespace a ServiceAccount `default` and, once the
    /// server listens, the ConfigMap `kube-root-ca.crt`, within the request that creates the
    /// namespace. New Pods then need a ServiceAccount, as in a cluster: its default is `default`,
    /// and their containers mount its token.
    pub fn accounts(mut self, on: bool) -> Self {
        self.accounts = on;
        self
    }

    /// Plays the controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs, CronJobs
    /// and PodDisruptionBudgets.
    pub fn workloads(mut self, on: bool) -> Self {
        self.workloads = on;
        self
    }

    /// Plays the scheduler and the kubelets: Pods are bound to a node, run, complete, and terminate
    /// when they are deleted.
    pub fn pods(mut self, on: bool) -> Self {
        self.pods = on;
        self
    }

    /// Writes the EndpointSlices and Endpoints of Services with a selector.
    pub fn endpoints(mut self, on: bool) -> Self {
        self.endpoints = on;
        self
    }

    /// Plays the volume binder: a PersistentVolumeClaim is bound to a matching PersistentVolume, or
    /// to one created for it, and Pods wait for that.
    pub fn volumes(mut self, on: bool) -> Self {
        self.volumes = on;
        self
    }

    /// Writes the Events of controllers, scheduler and kubelets, which `kubectl describe` shows.
    /// Events are deleted after an hour, and cost four more writes per Pod. On by default in
    /// [`Played::everything`], else off.
    pub fn events(mut self, on: bool) -> Self {
        self.events = on;
        self
    }

    /// Sets the number of nodes that the server creates for Pods, named `node-1` and so on. Nodes
    /// that clients create are used too. Default 1.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// Sets how long the steps of a Pod take. Default [`Speed::instant`].
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }
}

impl Speed {
    /// Returns the speed at which no step takes time.
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

    /// Sets how long a Pod waits for its node.
    pub fn schedule(mut self, time: Duration) -> Self {
        self.schedule = time;
        self
    }

    /// Sets how long a Pod takes from its node to ready.
    pub fn start(mut self, time: Duration) -> Self {
        self.start = time;
        self
    }

    /// Sets how long a Pod runs that is meant to complete, such as a Job's.
    pub fn complete(mut self, time: Duration) -> Self {
        self.complete = time;
        self
    }

    /// Sets how long a deleted Pod takes to terminate, limited by its grace period.
    pub fn stop(mut self, time: Duration) -> Self {
        self.stop = time;
        self
    }

    /// Sets the fraction, from 0 to 1, by which each time varies: with 0.1 a second takes between
    /// 0.9 s and 1.1 s. The time of each Pod follows from the server's seed. Default 0.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = part.clamp(0.0, 1.0);
        self
    }

    /// Returns a time varied by the jitter; `random` is a pseudo-random number.
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

    /// Returns the value of the annotation, for instance `CrashLoopBackOff`.
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
