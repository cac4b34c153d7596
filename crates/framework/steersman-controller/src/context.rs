//! Handle: the context of one reconcile: client, recorder of Kubernetes Events, clock, cancellation and reason.

pub(crate) mod reason;
pub(crate) mod changes;
pub(crate) mod loops;
pub(crate) mod loop_watch;
pub(crate) mod event_journal;

pub(crate) mod declared;
mod owned;
pub(crate) mod report;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use steersman_client::{Client, RequestId};
use steersman_events::{EventPublisher, EventRecorder};
use steersman_object::Kind;
use tokio_util::sync::CancellationToken;

use crate::clusters::{ClusterMember, Clusters};
use crate::context::event_journal::StepJournal;
use crate::context::reason::RunReason;
use crate::options::Clock;
use crate::request::{ClusterName, RequestKey};

use declared::DeclaredKinds;

/// The context of a reconcile: client, recorder of Kubernetes Events, clock, cancellation, and the reason why the
/// reconcile runs. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug(
    "Context {{ controller: {:?}, reconcile_id: {:?}, attempt: {:?}, .. }}",
    self.controller(), run.reconcile_id, run.attempt
)]
pub struct Context {
    shared: Arc<ContextShared>,
    declared: Arc<DeclaredKinds>,
    request: Option<RequestId>,
    // The client for the current request is created on first use, because many reconciles find nothing to do and need
    // no client.
    client: OnceLock<Client>,
    cancelled: CancellationToken,
    run: Run,
}

#[derive(Clone, Default)]
pub(crate) struct Run {
    pub(crate) reconcile_id: u64,
    pub(crate) attempt: u32,
    pub(crate) is_last_attempt: bool,
    pub(crate) reason: RunReason,
}

struct ContextShared {
    controller: Arc<str>,
    client: Client,
    events: EventRecorder,
    clock: Clock,
    clusters: OtherClusters,
    /// The clients and recorders of this controller for other clusters, by the id of the cluster, made on first use.
    cluster_clients: Mutex<HashMap<u64, ClusterClient>>,
}

/// The clusters of a manager besides its own, as one controller uses them.
#[derive(Default)]
pub(crate) struct OtherClusters {
    pub(crate) all: Clusters,
    /// Where the steps of reconciles in these clusters are noted; `None` without a journal.
    pub(crate) steps: Option<Arc<StepJournal>>,
}

/// The client, and the recorder of Kubernetes Events, of one controller for one cluster.
struct ClusterClient {
    member: ClusterMember,
    client: Client,
    events: EventRecorder,
}

impl Context {
    /// Makes a context without a controller, for calling a reconciler in a test: first attempt, reconcile id 0, never
    /// cancelled. Its Kubernetes Events go to the server of the client.
    #[must_use]
    pub fn detached(controller: impl Into<String>, client: Client, clock: Clock) -> Self {
        let events = default_events(&client, &clock);
        Self::with_clusters(controller, client, clock, OtherClusters::default(), &events)
    }

    pub(crate) fn with_clusters(
        controller: impl Into<String>,
        client: Client,
        clock: Clock,
        clusters: OtherClusters,
        events: &EventPublisher,
    ) -> Self {
        let controller = controller.into();
        let events = events.recorder(&controller);
        Self {
            shared: Arc::new(ContextShared {
                controller: controller.into(),
                client,
                events,
                clock,
                clusters,
                cluster_clients: Mutex::default(),
            }),
            declared: Arc::default(),
            request: None,
            client: OnceLock::new(),
            cancelled: CancellationToken::new(),
            run: Run::default(),
        }
    }

    /// Returns the client, which reads from the cache and writes to the server [on behalf
    /// of](Client::request) the request that is reconciled.
    pub fn client(&self) -> &Client {
        self.client.get_or_init(|| match &self.request {
            Some(request) => self.shared.client.for_request(request.clone()),
            None => self.shared.client.clone(),
        })
    }

    /// Returns the client of another cluster of the manager: it reads from the cache of that cluster, writes to its
    /// server, and sees the writes of this request, as [`client`](Self::client) does in the manager's own cluster. For
    /// [`ClusterName::local`] this is the client that [`client`](Self::client) returns.
    ///
    /// Returns `None` if the cluster was removed: a reconcile of one of its objects then has nothing to do.
    pub fn client_in(&self, cluster: &ClusterName) -> Option<Client> {
        if *cluster == ClusterName::local() {
            return Some(self.client().clone());
        }
        let client = self
            .shared
            .of_cluster(cluster, |used| used.client.clone())?;
        Some(match &self.request {
            Some(request) => client.for_request(request.clone()),
            None => client,
        })
    }

    /// Returns the recorder of Kubernetes Events of this controller. Recording never waits and never fails (EVENT-1).
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn f(ctx: &steersman_controller::Context, site: &ConfigMap, pages: usize) {
    /// ctx.events().normal(site, "Published", "Publish", format_args!("published {pages} pages"));
    /// # }
    /// ```
    pub fn events(&self) -> &EventRecorder {
        &self.shared.events
    }

    /// Returns the recorder for objects of another cluster of the manager; it works like [`events`](Self::events). For
    /// [`ClusterName::local`] this is the recorder that `events` returns. `None` means that the cluster was removed.
    pub fn events_in(&self, cluster: &ClusterName) -> Option<EventRecorder> {
        if *cluster == ClusterName::local() {
            return Some(self.events().clone());
        }
        self.shared.of_cluster(cluster, |used| used.events.clone())
    }

    /// Returns the name of the controller that runs this reconcile.
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// Returns the time of day, by the clock that the controller was started with.
    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    /// Returns the number of consecutive failures of this request: 0 on the first attempt.
    ///
    /// If an event runs the request before its retry is due, a failure of that run does not count.
    pub fn attempt(&self) -> u32 {
        self.run.attempt
    }

    /// Returns whether this is the last retry of the request, by
    /// [`max_retries`](crate::ControllerBuilder::max_retries): if this run fails, the request does not run again until
    /// something changes.
    pub fn is_last_attempt(&self) -> bool {
        self.run.is_last_attempt
    }

    /// Returns why this reconcile runs, for logs and tests.
    pub fn reason(&self) -> &RunReason {
        &self.run.reason
    }

    /// Returns the number of this reconcile, unique within its controller. The log lines of the reconcile have it as
    /// `reconcileID`.
    pub fn reconcile_id(&self) -> u64 {
        self.run.reconcile_id
    }

    /// Waits until the reconcile should end: the controller stops, or the deadline of this reconcile has passed. A
    /// reconcile that has not ended within the grace after that is dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Returns whether the reconcile should end: whether [`cancelled`](Self::cancelled) would return at once.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// Makes this the context of a reconcile of `request`. Clones of the context that were made earlier keep their
    /// request.
    pub(crate) fn begin<R: RequestKey>(&mut self, request: &R, run: Run) {
        let controller = Arc::clone(&self.shared.controller);
        self.request = Some(RequestId::new(controller, request.clone()));
        self.client = OnceLock::new();
        self.run = run;
    }

    /// Returns the id of the request that is reconciled; `None` before the first reconcile.
    pub(crate) fn request(&self) -> Option<&RequestId> {
        self.request.as_ref()
    }

    pub(crate) fn primary_kind(&self) -> Option<&Kind> {
        let primary = self.declared.primary.as_ref();
        primary.map(|primary| &primary.kind)
    }

    /// Sets the kinds that the controller declared. The tracing span of a reconcile names the primary kind, and reads
    /// of owned objects check the owned kinds.
    pub(crate) fn declare(&mut self, declared: DeclaredKinds) {
        self.declared = Arc::new(declared);
    }

    pub(crate) fn cancel_with(&mut self, token: CancellationToken) {
        self.cancelled = token;
    }

    pub(crate) fn cluster_clients(&self) -> Vec<Client> {
        let clients = self.shared.cluster_clients.lock();
        clients.values().map(|used| used.client.clone()).collect()
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.cancel();
    }
}

impl ContextShared {
    /// Calls `read` with the client and the recorder of this controller for a cluster, and returns its result; `None`
    /// if the cluster was removed. The client has the field manager of the controller's own client, and counts its own
    /// writes (CTRL-9: a stop waits for these writes alone).
    fn of_cluster<T>(
        &self,
        cluster: &ClusterName,
        read: impl FnOnce(&ClusterClient) -> T,
    ) -> Option<T> {
        let mut clients = self.cluster_clients.lock();
        clients.retain(|_, used| !used.member.removed.is_cancelled());
        let member = self.clusters.all.get(cluster)?;
        let used = clients.entry(member.id).or_insert_with(|| {
            let client = member.client().clone();
            let client = match self.client.given_field_manager() {
                Some(name) => client.field_manager(name),
                None => client.for_controller(&self.controller),
            };
            let client = client.counting_apart();
            let steps = self.clusters.steps.as_ref();
            let observed = steps.map(|steps| steps.observe(&client, Some(cluster.clone())));
            ClusterClient {
                events: self
                    .events
                    .for_client_config(client.client_config().clone()),
                client: observed.unwrap_or(client),
                member,
            }
        });
        Some(read(used))
    }
}

pub(crate) fn default_events(client: &Client, clock: &Clock) -> EventPublisher {
    let (client_config, clock) = (client.client_config().clone(), Arc::clone(clock));
    EventPublisher::with(client_config, move || clock(), None)
}
