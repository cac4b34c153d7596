//! Words: the options of an informer.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use steersman_object::ResourceVersion;

use crate::health::ServerHealth;
use crate::metrics::InformerMetrics;
use crate::shard_filter::ShardFilter;
use crate::state::Reason;
use crate::transform::Transform;
use steersman_pack::Budget;

/// The options of one informer.
#[derive(Clone, derive_more::Debug)]
#[non_exhaustive]
#[must_use = "options do nothing until an informer is made of them"]
pub struct InformerOptions {
    /// A label selector. The informer holds only matching objects. Default: all objects.
    pub labels: Option<String>,
    /// A field selector. The informer holds only matching objects. Default: all objects.
    pub fields: Option<String>,
    /// Whether to begin with a streaming list (WatchList, KEP-3157) if the server offers it. Default: true.
    pub watch_list: bool,
    /// The number of objects per page of an ordinary list. Default: 500, as in client-go.
    pub page_size: u32,
    /// The most deltas that may wait for the store; at this number the reflector stops reading. Default: 1024.
    pub queue_bound: usize,
    /// The number of bytes of JSON that may wait for the store. When it is reached, the reflector stops reading the
    /// connection. A larger delta waits alone. Default: 16 MiB.
    pub queue_bytes: usize,
    /// The number of events that may wait for one subscriber; beyond it, events of one key are coalesced. Default:
    /// 1024.
    pub mailbox_bound: usize,
    /// Whether watches ask for bookmarks. No list is streamed without them: a bookmark ends it. Default: true.
    pub bookmarks: bool,
    /// Changes each object before it is stored. A transform makes the informer ask for whole
    /// objects, even if all readers need metadata only. Default: none.
    pub transform: Option<Transform>,
    /// The interval at which subscribers receive every object again, as an update to itself: at least one second, with
    /// a jitter of up to a tenth. Default: never.
    pub resync: Option<Duration>,
    /// The budget of cached decoded objects, shared by all informers with a clone. Default: 64 MiB for this informer.
    pub budget: Budget,
    /// The labels that are indexed for every type, each under its own name. Default: none.
    pub indexed_labels: Vec<String>,
    /// The seed for the jitter of delays. Default: random, so that replicas differ.
    pub seed: u64,
    /// The health of the server, shared with all informers that have a clone of it. Default: not shared.
    pub health: ServerHealth,
    /// The batches in which the objects of a list are decoded. Default: one per thread, at most four at once.
    pub decode_batches: Option<DecodeBatches>,
    /// The metrics in which the informer counts. Default: none.
    pub metrics: Option<InformerMetrics>,
    /// Returns the advice that is logged when requests fail. Default: no advice.
    #[debug("{:?}", failure_advice.is_some())]
    pub failure_advice: Option<FailureAdvice>,
    /// Reasons of failures of the first list that end by themselves, because this program installs the definition of
    /// the kind or converts its objects. These failures are logged as info. Default: none.
    pub expected_at_first: Vec<Reason>,
    /// Called after each failed request. Default: no hook.
    #[debug("{:?}", on_failure.is_some())]
    pub on_failure: Option<OnFailure>,
    /// Returns the resource version that the first list must have reached. Default: any version.
    #[debug("{:?}", first_version.is_some())]
    pub first_version: Option<FirstVersion>,
    /// The slots of objects that the informer holds. Default: all objects.
    pub shards: Option<ShardFilter>,
}

/// The batches in which the objects of a list are decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeBatches {
    /// The number of batches that are decoded at once; 0 decodes each object as it is read.
    pub batches: usize,
    /// The size of a batch, in bytes of JSON.
    pub bytes: usize,
}

/// A failed request of an informer: a list that was refused or ended early, or a watch that was refused, brought an
/// error, ended as soon as it was open, or was silent for too long. The ordinary end of a watch and a connection that
/// breaks later are no failures: the informer resumes the watch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// The class of the failure.
    pub reason: Reason,
    /// The server's message, or a description of the failure; it does not name the kind.
    pub message: String,
    /// The number of failures since the last success, this one included.
    pub attempt: u32,
}

/// A hook that is called after each failed request.
pub type OnFailure = Arc<dyn Fn(&Failed) + Send + Sync>;

/// A function that returns the advice to log for a failed request, by its reason; `None` for no advice.
pub type FailureAdvice = Arc<dyn Fn(Reason) -> Option<String> + Send + Sync>;

/// A function that returns the version that the first list must have reached, called once, at the start. If the version
/// is unset, the list asks for the newest state.
pub type FirstVersion = Arc<dyn Fn() -> ResourceVersion + Send + Sync>;

impl Default for InformerOptions {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            watch_list: true,
            page_size: 500,
            queue_bound: 1024,
            queue_bytes: 16 << 20,
            mailbox_bound: 1024,
            bookmarks: true,
            transform: None,
            resync: None,
            budget: Budget::default(),
            indexed_labels: Vec::new(),
            seed: RandomState::new().hash_one("steersman"),
            health: ServerHealth::default(),
            decode_batches: None,
            metrics: None,
            failure_advice: None,
            expected_at_first: Vec::new(),
            on_failure: None,
            first_version: None,
            shards: None,
        }
    }
}

impl InformerOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds only objects with these labels; the server filters.
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Holds only objects with these fields; the server filters.
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Holds only the objects in the slots of a filter. Lists of gained slots ask for the newest state, so
    /// [`first_version`](Self::first_version) is not used. Default: all objects.
    pub fn shards(mut self, filter: ShardFilter) -> Self {
        self.shards = Some(filter);
        self
    }

    /// Sets whether to begin with a streaming list if the server offers it. Default: true.
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.watch_list = watch_list;
        self
    }

    /// Sets how new the first list must be (`resourceVersionMatch=NotOlderThan`). `ask` is called once, when the
    /// informer starts: the list has at least the returned version, or is the newest if that version is unset. If the
    /// server has not reached the version, the informer asks for the newest state.
    pub fn first_version(
        mut self,
        ask: impl Fn() -> ResourceVersion + Send + Sync + 'static,
    ) -> Self {
        self.first_version = Some(Arc::new(ask));
        self
    }

    /// Sets the number of objects per page of an ordinary list; 0 asks for all in one page.
    pub fn page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// Sets the most deltas that may wait for the store, at least 1; at this number the reflector stops reading.
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = bound.max(1);
        self
    }

    /// Sets the most bytes of JSON that may wait for the store; at this limit the reflector stops reading.
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// Sets the number of events that may wait for one subscriber; beyond it, events of one key are coalesced.
    pub fn mailbox_bound(mut self, bound: usize) -> Self {
        self.mailbox_bound = bound;
        self
    }

    /// Sets whether watches ask for bookmarks. Without bookmarks no list is streamed. Default: true.
    pub fn bookmarks(mut self, bookmarks: bool) -> Self {
        self.bookmarks = bookmarks;
        self
    }

    /// Sets the transform: a change of each object before it is stored.
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform).filter(|transform| !transform.is_identity());
        self
    }

    /// Indexes these labels for all types, each as [`Informer::index_label`](crate::Informer::index_label) does.
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        let mut labels: Vec<String> = labels.into_iter().map(Into::into).collect();
        labels.retain(|label| !label.is_empty());
        labels.sort_unstable();
        labels.dedup();
        self.indexed_labels = labels;
        self
    }

    /// Sets the interval at which subscribers receive every object again, as an update to itself.
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every).filter(|d| !d.is_zero());
        self
    }

    /// Sets the budget for decoded objects, shared by all informers with a clone of it.
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Sets the seed for the jitter of delays, for tests that repeat a run. Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the health of the server. Give all informers of one server clones of the same health.
    pub fn health(mut self, health: ServerHealth) -> Self {
        self.health = health;
        self
    }

    /// Sets that the objects of a list are decoded in batches of `bytes` of JSON, `batches` of them at once (0 decodes
    /// each object as it is read), for tests that must not depend on the runtime's threads.
    pub fn decode_batches(mut self, batches: usize, bytes: usize) -> Self {
        self.decode_batches = Some(DecodeBatches { batches, bytes });
        self
    }

    /// Sets the metrics in which the informer counts. Default: none.
    pub fn metrics(mut self, metrics: InformerMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Sets the function that returns the advice to log for a failed request, by its reason. Default: no advice.
    pub fn failure_advice(
        mut self,
        advise: impl Fn(Reason) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.failure_advice = Some(Arc::new(advise));
        self
    }

    /// Sets the reasons of failures of the first list that this program itself removes; they are logged as info.
    pub fn expected_at_first(mut self, reasons: Vec<Reason>) -> Self {
        self.expected_at_first = reasons;
        self
    }

    /// Sets the hook that is called after each failed request, in the informer's task. It must neither block nor panic.
    pub fn on_failure(mut self, hook: impl Fn(&Failed) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Arc::new(hook));
        self
    }
}
