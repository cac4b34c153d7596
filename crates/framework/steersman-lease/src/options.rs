//! Words: the options of an election.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_object::ObjectKey;
use steersman_object::names::{is_label_value, is_qualified, is_subdomain};

use crate::error::Error;
use crate::identity::hostname_uuid;
use crate::status::{ElectionChange, Overrun};
use crate::timing::Timing;

/// The wall clock that gives the times in the Lease.
pub(crate) type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

pub(crate) type ChangeHook = Arc<dyn Fn(&ElectionChange) + Send + Sync>;

/// The hook that ends the process after its work has outlived its lease.
pub(crate) type AbortHook = Arc<dyn Fn(&Overrun) + Send + Sync>;

/// The options of an election: the Lease, the identity, the durations, and the behaviour at a loss.
///
/// ```
/// use steersman_lease::LeaderElection;
///
/// let options = LeaderElection::new("website-operator")
///     .namespace("operators")
///     .label("app.kubernetes.io/part-of", "websites");
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "LeaderElection {{ name: {name:?}, namespace: {namespace:?}, identity: {identity:?}, \
     timing: {timing:?}, .. }}"
)]
#[must_use = "options do nothing until an elector is made with them"]
pub struct LeaderElection {
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    pub(crate) identity: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) timing: Timing,
    pub(crate) releases: bool,
    pub(crate) aborts: bool,
    pub(crate) on_callers_runtime: bool,
    pub(crate) seed: u64,
    pub(crate) clock: WallClock,
    pub(crate) on_change: Option<ChangeHook>,
    pub(crate) abort: AbortHook,
}

/// The validated options of one elector, with every default filled in.
#[derive(Clone)]
pub(crate) struct ElectionOptions {
    pub(crate) key: ObjectKey,
    pub(crate) identity: String,
    pub(crate) given: LeaderElection,
}

impl LeaderElection {
    /// Makes the options of an election with the Lease of this name, which only the replicas of one operator use.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: None,
            identity: None,
            labels: BTreeMap::new(),
            timing: Timing::default(),
            releases: true,
            aborts: true,
            on_callers_runtime: false,
            seed: RandomState::new().hash_one("steersman-lease"),
            clock: Arc::new(Timestamp::now),
            on_change: None,
            abort: Arc::new(|_| std::process::abort()),
        }
    }

    /// Sets the namespace of the Lease. The default is the namespace of the Pod, or of the current context of the
    /// kubeconfig; without both, an elector cannot be made.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets the identity of this candidate, which no other candidate may have. The default is the name of the
    /// machine (in a Pod, of the Pod), an underscore and a random UUID.
    pub fn identity(mut self, identity: impl Into<String>) -> Self {
        self.identity = Some(identity.into());
        self
    }

    /// Adds a label to the Lease. A leader writes its labels with each renewal and removes no other label.
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.insert(name.into(), value.into());
        self
    }

    /// Sets the lease duration, the renew deadline and the retry period; 15 s, 10 s and 2 s by default.
    ///
    /// - A standby takes the lease when it has seen no change for the lease duration, a number of whole seconds.
    /// - A leader stops its work when no renewal succeeded for the renew deadline.
    /// - A leader renews once per retry period; a standby reads the Lease every 1 to 2.2 retry periods.
    ///
    /// The lease duration must exceed the renew deadline, and the renew deadline 1.2 times the retry period. A request
    /// may take half of the renew deadline, but at least a second.
    pub fn timing(
        mut self,
        lease_duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Self {
        self.timing = Timing {
            lease_duration,
            renew_deadline,
            retry_period,
        };
        self
    }

    /// Sets whether an orderly stop releases the Lease, so that a standby leads within 2.2 retry periods; on by
    /// default. Otherwise a standby waits until the lease has expired.
    pub fn release_on_stop(mut self, releases: bool) -> Self {
        self.releases = releases;
        self
    }

    /// Sets whether the process is aborted if work still runs after a loss, when half of the time between the renew
    /// deadline and the expiry has passed (LEASE-4); on by default.
    ///
    /// Without the abort, work that blocks its thread may run while the next leader works.
    pub fn abort_on_overrun(mut self, aborts: bool) -> Self {
        self.aborts = aborts;
        self
    }

    /// Replaces the abort of the process, for tests. The hook runs on the elector's thread, or beside a blocked one.
    pub fn abort_with(mut self, abort: impl Fn(&Overrun) + Send + Sync + 'static) -> Self {
        self.abort = Arc::new(abort);
        self
    }

    /// Calls `hook` for each change of the election, for example to write Events. The hook runs on the elector's thread
    /// and must not block, because that delays renewals. A panic of the hook is logged.
    pub fn on_change(mut self, hook: impl Fn(&ElectionChange) + Send + Sync + 'static) -> Self {
        self.on_change = Some(Arc::new(hook));
        self
    }

    /// Sets the wall clock of the times in the Lease, by which no candidate decides; by default that of the system.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Sets the seed of the random pauses of a standby. By default it is random, so that replicas differ.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Runs the elector on the runtime of the caller instead of its own thread, for tests with a paused clock.
    pub fn on_callers_runtime(mut self) -> Self {
        self.on_callers_runtime = true;
        self
    }

    /// Validates the options; `fallback` is the namespace of the `ClientConfig`.
    pub(crate) fn validate(self, fallback: Option<&str>) -> Result<ElectionOptions, Error> {
        let lease = self.name.clone();
        let refused = |problem| {
            Err(Error::Name {
                lease: lease.clone(),
                problem,
            })
        };
        if !is_subdomain(&self.name) {
            return refused(
                "its name must consist of lower-case letters, digits, `-` and `.`, start and end with a letter or digit, and have at most 253 characters",
            );
        }
        if let Some(problem) = self.timing.problem() {
            let timing = self.timing;
            return Err(Error::Timing {
                lease,
                lease_duration: timing.lease_duration,
                renew_deadline: timing.renew_deadline,
                retry_period: timing.retry_period,
                problem,
            });
        }
        let identity = self.identity.clone().unwrap_or_else(hostname_uuid);
        if identity.is_empty() {
            return refused(
                "the identity of the candidate is empty: leave it out or set a unique one",
            );
        }
        let is_label =
            |(key, value): (&String, &String)| is_qualified(key) && is_label_value(value);
        if !self.labels.iter().all(is_label) {
            return refused(
                "a key of its labels must be a name of at most 63 letters, digits, `-`, `_` and `.`, with an optional subdomain and `/` before it, and a value such a name or empty",
            );
        }
        let namespace = self.namespace.as_deref().or(fallback);
        let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) else {
            return Err(Error::NoNamespace { lease });
        };
        Ok(ElectionOptions {
            key: ObjectKey::namespaced(namespace, &*self.name),
            identity,
            given: self,
        })
    }
}
