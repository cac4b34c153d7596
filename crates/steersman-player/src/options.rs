//! Words: which parts of a cluster are played, how fast, and what goes wrong with Pods.

use std::fmt;
use std::time::Duration;

use steersman_registry::RegistryOptions;

/// The annotation of a Pod (or of a Pod template) that names the [`Trouble`] it is in.
pub const TROUBLE: &str = "play.steersman/trouble";

/// The annotation of a Pod (or of a Pod template) that says with which code its containers end: where
/// they are meant to end, where they are in [`Trouble::Failed`], and where they crash. Other than 0
/// the Pod fails. Default 0, and 1 in trouble.
pub const EXIT_CODE: &str = "play.steersman/exit-code";

/// Which parts of a cluster the server plays. The default plays what the API cannot be understood
/// without: the garbage collector, the namespace controller, and those of aggregated ClusterRoles and of
/// ResourceQuotas.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "this does nothing until a server is built with it"]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a part of a cluster of its own"
)]
pub struct Played {
    pub(crate) garbage_collection: bool,
    pub(crate) namespaces: bool,
    pub(crate) roles: bool,
    pub(crate) quotas: bool,
    pub(crate) accounts: bool,
    pub(crate) workloads: bool,
    pub(crate) pods: bool,
    pub(crate) endpoints: bool,
    pub(crate) events: bool,
    pub(crate) volumes: bool,
    pub(crate) nodes: u32,
    pub(crate) speed: Speed,
}

/// How long the steps in the life of a played Pod take, on tokio's clock.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use = "this does nothing until a server is built with it"]
pub struct Speed {
    pub(crate) schedule: Duration,
    pub(crate) start: Duration,
    pub(crate) complete: Duration,
    pub(crate) stop: Duration,
    pub(crate) jitter: f64,
}

/// What goes wrong with a Pod: by its annotation [`TROUBLE`], or by
/// [`Player::fail_pods`](super::Player::fail_pods).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// `CrashLoopBackOff`: its containers end with [`EXIT_CODE`] as soon as they start, and are
    /// restarted after 10 s, 20 s and so on up to 5 min.
    CrashLoop,
    /// `ImagePullBackOff`: its images cannot be had.
    ImagePull,
    /// `Failed`: its containers end with [`EXIT_CODE`], and the Pod with them.
    Failed,
    /// `NeverReady`: its containers run and are never ready.
    NeverReady,
    /// `Unschedulable`: no node will have it.
    Unschedulable,
    /// `Unstoppable`: its containers ignore the request to stop, so that a delete takes its whole
    /// grace period.
    Unstoppable,
}

impl Default for Played {
    fn default() -> Self {
        Self {
            garbage_collection: true,
            namespaces: true,
            roles: true,
            quotas: true,
            ..Self::nothing()
        }
    }
}

impl Played {
    /// Nothing at all, as behind a kube-apiserver that runs alone.
    pub fn nothing() -> Self {
        Self {
            garbage_collection: false,
            namespaces: false,
            roles: false,
            quotas: false,
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

    /// Every part, with one node, and Pods that run at once.
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
        options.furnish_namespaces = self.accounts;
    }

    /// The garbage collector, within the request that gives it work: dependents of a deleted owner
    /// go, are orphaned, or are waited for.
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.garbage_collection = on;
        self
    }

    /// The namespace controller, within the request that gives it work: a deleted namespace is
    /// emptied and removed.
    pub fn namespaces(mut self, on: bool) -> Self {
        self.namespaces = on;
        self
    }

    /// The controller of ClusterRoles with an `aggregationRule`, after the request that gives it
    /// work: their rules are those of the roles that they select.
    pub fn roles(mut self, on: bool) -> Self {
        self.roles = on;
        self
    }

    /// The controller of ResourceQuotas, within the request that gives it work: their status says what
    /// they limit and what is used. Admission reads the limits there, so without it a quota limits
    /// nothing before somebody writes its status, as on a kube-apiserver that runs alone.
    pub fn quotas(mut self, on: bool) -> Self {
        self.quotas = on;
        self
    }

    /// The controllers that give each namespace a ServiceAccount `default` and, once the server listens,
    /// the ConfigMap `kube-root-ca.crt`, within the request that gives them work. New Pods need a
    /// ServiceAccount then, as in a cluster: where they name none it is `default`, and their containers
    /// mount its token.
    pub fn accounts(mut self, on: bool) -> Self {
        self.accounts = on;
        self
    }

    /// The controllers of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs,
    /// and the one of PodDisruptionBudgets.
    pub fn workloads(mut self, on: bool) -> Self {
        self.workloads = on;
        self
    }

    /// The scheduler and the kubelets: Pods get a node, run, complete, and end when they are deleted.
    pub fn pods(mut self, on: bool) -> Self {
        self.pods = on;
        self
    }

    /// The EndpointSlices and Endpoints of Services with a selector.
    pub fn endpoints(mut self, on: bool) -> Self {
        self.endpoints = on;
        self
    }

    /// The binder of volumes: a PersistentVolumeClaim gets a PersistentVolume that fits, or one that
    /// is made for it, and Pods wait until it has.
    pub fn volumes(mut self, on: bool) -> Self {
        self.volumes = on;
        self
    }

    /// The Events that controllers, scheduler and kubelets write about all that, which `kubectl
    /// describe` shows. They are kept for an hour, and cost a Pod four more writes. Default on in
    /// [`Played::everything`], else off.
    pub fn events(mut self, on: bool) -> Self {
        self.events = on;
        self
    }

    /// How many nodes are made for Pods to run on, `node-1` and so on. Nodes that clients create are
    /// used beside them. Default 1.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = nodes;
        self
    }

    /// How long the life of a Pod takes. Default [`Speed::instant`].
    pub fn speed(mut self, speed: Speed) -> Self {
        self.speed = speed;
        self
    }
}

impl Default for Speed {
    fn default() -> Self {
        Self::instant()
    }
}

impl Speed {
    /// Every step is taken at once.
    pub fn instant() -> Self {
        Self {
            schedule: Duration::ZERO,
            start: Duration::ZERO,
            complete: Duration::ZERO,
            stop: Duration::ZERO,
            jitter: 0.0,
        }
    }

    /// A brisk cluster: scheduled after 10 ms, started after 100 ms, completed after 1 s, stopped
    /// after 50 ms.
    pub fn brisk() -> Self {
        Self {
            schedule: Duration::from_millis(10),
            start: Duration::from_millis(100),
            complete: Duration::from_secs(1),
            stop: Duration::from_millis(50),
            jitter: 0.0,
        }
    }

    /// How long a Pod waits for its node.
    pub fn schedule(mut self, time: Duration) -> Self {
        self.schedule = time;
        self
    }

    /// How long a Pod on a node takes to be ready.
    pub fn start(mut self, time: Duration) -> Self {
        self.start = time;
        self
    }

    /// How long a Pod runs that is meant to end, such as a Job's.
    pub fn complete(mut self, time: Duration) -> Self {
        self.complete = time;
        self
    }

    /// How long a deleted Pod takes to end, at most its grace period.
    pub fn stop(mut self, time: Duration) -> Self {
        self.stop = time;
        self
    }

    /// By which part of itself each time is longer or shorter, from 0 to 1: with 0.1 a second lasts
    /// between 0.9 s and 1.1 s. Which Pod takes how long follows from the server's seed. Default 0.
    pub fn jitter(mut self, part: f64) -> Self {
        self.jitter = part.clamp(0.0, 1.0);
        self
    }

    /// A time of this speed for somebody whose number is `draw`.
    pub(super) fn vary(&self, time: Duration, draw: u64) -> Duration {
        if self.jitter == 0.0 || time.is_zero() {
            return time;
        }
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share of the range, whose last bits do not matter"
        )]
        let share = draw as f64 / u64::MAX as f64;
        time.mul_f64(1.0 + self.jitter * (2.0 * share - 1.0))
    }
}

impl Trouble {
    const ALL: [Self; 6] = [
        Self::CrashLoop,
        Self::ImagePull,
        Self::Failed,
        Self::NeverReady,
        Self::Unschedulable,
        Self::Unstoppable,
    ];

    /// How the annotation names it, for instance `CrashLoopBackOff`.
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

    /// The trouble of that name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
