//! Words: how an informer asks, and what it holds at most.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use steersman_object::ResourceVersion;

use crate::health::ServerHealth;
use crate::metrics::InformerMetrics;
use crate::pack::Budget;
use crate::state::Reason;
use crate::transform::Transform;

/// How one informer behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerOptions {
    /// A label selector: only matching objects are held.
    pub labels: Option<String>,
    /// A field selector: only matching objects are held.
    pub fields: Option<String>,
    /// Begin with a streaming list (WatchList, KEP-3157) where the server offers it. Default: yes.
    pub watch_list: bool,
    /// Objects per page of an ordinary list. Default: 500, as client-go.
    pub page_size: u32,
    /// How many deltas may wait for the store before the connection is no longer read.
    /// Default: 1024.
    pub queue_bound: usize,
    /// How many bytes of JSON may wait for the store before the connection is no longer read; what is
    /// larger by itself waits alone. Default: 16 MiB.
    pub queue_bytes: usize,
    /// How many events may wait for one subscriber before those of one key collapse.
    /// Default: 1024.
    pub mailbox_bound: usize,
    /// Whether watches ask for bookmarks. Without them lists are not streamed either: their end is
    /// one. Default: yes.
    pub bookmarks: bool,
    /// What is changed of each object before anybody sees it. Default: nothing. With one, whole
    /// objects are asked for, whoever looks at them.
    pub transform: Option<Transform>,
    /// Send every object again as an update to itself, about this often, and each second at most: the
    /// jitter makes it up to a tenth more or less. Default: never.
    pub resync: Option<Duration>,
    /// How many bytes of decoded objects are kept, by this informer and all others that have a clone of
    /// it. Default: 64 MiB of its own.
    pub budget: Budget,
    /// The labels whose values are indexed for every type that looks, under their names. Default: none.
    pub indexed_labels: Vec<String>,
    /// Where the jitter of delays comes from. Default: random, so that replicas differ.
    pub seed: u64,
    /// What this informer and all others that have a clone of it know of their server. Default: its own.
    pub health: ServerHealth,
    /// How the objects of a list are decoded beside each other. Default: by as many threads as the runtime has, four
    /// at most.
    pub decode_batches: Option<DecodeBatches>,
    /// Where to count. Default: nowhere.
    pub metrics: Option<InformerMetrics>,
    /// What to advise in the log when requests fail. Default: nothing.
    pub failure_advice: FailureAdvice,
    /// Who is told of each request that fails. Default: nobody.
    pub on_failure: OnFailure,
    /// How new the first list has to be. Default: any version that the server has at hand.
    pub first_version: FirstVersion,
}

/// How the objects of a list are decoded beside each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeBatches {
    /// The number of batches that are worked on at once; 0 for each object as it is read.
    pub batches: usize,
    /// The size of a batch, in bytes of JSON.
    pub bytes: usize,
}

/// A request of an informer that failed: a list that was refused or ended early, a watch that was
/// refused, brought an error, ended as soon as it was open, or was silent for too long. A watch that
/// lasted or brought something and then ends, or whose connection breaks, is none: it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failed {
    /// What kind of failure it is.
    pub reason: Reason,
    /// What the server said or what happened, for people; it does not name the kind.
    pub message: String,
    /// Which failure it is since the last success, from 1.
    pub attempt: u32,
}

/// Who is told of each request that fails. Cheap to clone.
#[derive(Clone, Default)]
pub struct OnFailure(Option<Arc<Hook>>);

type Hook = dyn Fn(&Failed) + Send + Sync;

/// What to do about a failure, as far as whoever declares an informer knows. Cheap to clone.
#[derive(Clone, Default)]
pub struct FailureAdvice(Option<Arc<Advise>>);

type Advise = dyn Fn(Reason) -> Option<String> + Send + Sync;

/// How new the first list of an informer has to be, asked once, as the informer starts. Cheap to clone.
#[derive(Clone, Default)]
pub struct FirstVersion(Option<Arc<AskVersion>>);

type AskVersion = dyn Fn() -> ResourceVersion + Send + Sync;

impl FirstVersion {
    /// The version that the first list starts from: that version or a newer one, or the newest where it is unset.
    pub(crate) fn get(&self) -> ResourceVersion {
        self.0
            .as_ref()
            .map_or_else(ResourceVersion::any, |ask| ask())
    }
}

impl fmt::Debug for FirstVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FirstVersion").field(&self.get()).finish()
    }
}

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
            failure_advice: FailureAdvice::default(),
            on_failure: OnFailure::default(),
            first_version: FirstVersion::default(),
        }
    }
}

impl InformerOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds only objects with these labels; the server filters.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Holds only objects with these fields; the server filters.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into()).filter(|s| !s.is_empty());
        self
    }

    /// Whether to begin with a streaming list where the server offers it.
    #[must_use]
    pub fn watch_list(mut self, watch_list: bool) -> Self {
        self.watch_list = watch_list;
        self
    }

    /// Asks, as the informer starts, how new the first list has to be (`resourceVersionMatch=NotOlderThan`): at
    /// least this version, or the newest where it is unset. A server that has not come so far is asked for its
    /// newest state instead.
    #[must_use]
    pub fn first_version(
        mut self,
        ask: impl Fn() -> ResourceVersion + Send + Sync + 'static,
    ) -> Self {
        self.first_version = FirstVersion(Some(Arc::new(ask)));
        self
    }

    /// Objects per page of an ordinary list; 0 asks for all at once.
    #[must_use]
    pub fn page_size(mut self, page_size: u32) -> Self {
        self.page_size = page_size;
        self
    }

    /// How many deltas may wait for the store; at least 1.
    #[must_use]
    pub fn queue_bound(mut self, bound: usize) -> Self {
        self.queue_bound = bound.max(1);
        self
    }

    /// How many bytes of JSON may wait for the store.
    #[must_use]
    pub fn queue_bytes(mut self, bytes: usize) -> Self {
        self.queue_bytes = bytes;
        self
    }

    /// How many events may wait for one subscriber before those of one key collapse.
    #[must_use]
    pub fn mailbox_bound(mut self, bound: usize) -> Self {
        self.mailbox_bound = bound;
        self
    }

    /// Whether watches ask for bookmarks.
    #[must_use]
    pub fn bookmarks(mut self, bookmarks: bool) -> Self {
        self.bookmarks = bookmarks;
        self
    }

    /// Changes each object before anybody sees it.
    #[must_use]
    pub fn transform(mut self, transform: Transform) -> Self {
        self.transform = Some(transform).filter(|transform| !transform.is_identity());
        self
    }

    /// Indexes the values of these labels for every type that looks at the objects, as
    /// [`Informer::index_label`](crate::Informer::index_label) does for one.
    #[must_use]
    pub fn index_labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        let mut labels: Vec<String> = labels.into_iter().map(Into::into).collect();
        labels.retain(|label| !label.is_empty());
        labels.sort_unstable();
        labels.dedup();
        self.indexed_labels = labels;
        self
    }

    /// Sends every object again as an update to itself, about this often.
    #[must_use]
    pub fn resync(mut self, every: Duration) -> Self {
        self.resync = Some(every).filter(|d| !d.is_zero());
        self
    }

    /// How many bytes of decoded objects are kept, by all who share the budget.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = budget;
        self
    }

    /// Where the jitter of delays comes from.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What is known of the server, shared by all informers that are given a clone: the informers of one connection.
    #[must_use]
    pub fn health(mut self, health: ServerHealth) -> Self {
        self.health = health;
        self
    }

    /// Decodes the objects of a list in batches of `bytes` of JSON, `batches` of them at once (0 for each object as it
    /// is read), whatever the runtime has. For tests that fix what else depends on the machine.
    #[must_use]
    pub fn decode_batches(mut self, batches: usize, bytes: usize) -> Self {
        self.decode_batches = Some(DecodeBatches { batches, bytes });
        self
    }

    /// Where to count.
    #[must_use]
    pub fn metrics(mut self, metrics: InformerMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// What to advise in the log when requests fail.
    #[must_use]
    pub fn failure_advice(
        mut self,
        advise: impl Fn(Reason) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.failure_advice = FailureAdvice(Some(Arc::new(advise)));
        self
    }

    /// Who is told of each request that fails, once for each attempt. The hook runs in the informer's
    /// task: it must neither block nor panic.
    #[must_use]
    pub fn on_failure(mut self, hook: impl Fn(&Failed) + Send + Sync + 'static) -> Self {
        self.on_failure = OnFailure(Some(Arc::new(hook)));
        self
    }
}

impl OnFailure {
    pub(crate) fn tell(&self, failed: &Failed) {
        if let Some(hook) = &self.0 {
            hook(failed);
        }
    }
}

impl fmt::Debug for OnFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "known" } else { "unknown" };
        f.debug_tuple("OnFailure").field(&known).finish()
    }
}

impl FailureAdvice {
    /// The advice for one reason, where there is some.
    #[must_use]
    pub fn of(&self, reason: Reason) -> Option<String> {
        self.0.as_ref().and_then(|advise| advise(reason))
    }
}

impl fmt::Debug for FailureAdvice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "known" } else { "unknown" };
        f.debug_tuple("FailureAdvice").field(&known).finish()
    }
}
