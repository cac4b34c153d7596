//! Words: the options of a client: field manager, namespace, locking, time limits and consistency.

use std::sync::Arc;
use std::time::Duration;

use steersman_api::{DEFAULT_REQUEST_TIMEOUT, DeleteOptions, FieldValidation, WriteOptions};

use crate::consistency::ReadConsistency;
use crate::metrics::ClientMetrics;
use crate::wait_observer::WaitObserver;
use crate::write::WriteObserver;

/// The options of a [`Client`](crate::Client); [`new`](Self::new) has the defaults.
#[derive(Clone, Debug)]
#[must_use]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is an option of its own, set by a method with its name"
)]
pub struct ClientOptions {
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) namespace: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    pub(crate) lock: OptimisticLock,
    pub(crate) strategic: bool,
    pub(crate) attempts: u32,
    pub(crate) retry_after_limit: Duration,
    pub(crate) observers: Vec<Arc<dyn WriteObserver>>,
    pub(crate) wait_observer: Option<Arc<dyn WaitObserver>>,
    pub(crate) consistency: ReadConsistency,
    pub(crate) own_write_wait: Duration,
    pub(crate) own_answers: bool,
    pub(crate) request_timeout: Duration,
    pub(crate) metrics: Option<ClientMetrics>,
}

/// Decides when a patch that is computed as a difference carries the resource version that it was computed from.
///
/// The server refuses a patch with a version as a conflict if the object has changed since; the client then reads the
/// object live and computes the difference again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptimisticLock {
    /// The patch carries the version if it sets or removes a whole list, because elements that other clients added
    /// meanwhile would be lost. (A merge patch cannot change a part of a list; a [strategic](ClientOptions::strategic)
    /// merge patch can.) A patch of a status also carries the version: the server does not compare the uid in a patch
    /// of a custom resource's status, so the patch could change another object of the same name.
    #[default]
    Lists,
    /// Every patch carries the version.
    Always,
    /// No patch carries the version: the last writer of a field, or of a whole list, wins.
    Never,
}

impl ClientOptions {
    /// Returns the default options: the server's default field manager and field validation, [`OptimisticLock::Lists`],
    /// five attempts to send a difference, at most 10 s of waiting before a request is repeated, and applies that take
    /// fields over from other managers.
    pub fn new() -> Self {
        Self {
            field_manager: None,
            field_validation: None,
            namespace: None,
            dry_run: false,
            force: true,
            lock: OptimisticLock::default(),
            strategic: false,
            attempts: 5,
            retry_after_limit: Duration::from_secs(10),
            observers: Vec::new(),
            wait_observer: None,
            consistency: ReadConsistency::default(),
            own_write_wait: Duration::from_secs(10),
            own_answers: true,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            metrics: None,
        }
    }

    /// Sets the field manager (`fieldManager`): the name that the server records as the owner of each written field, at
    /// most 128 bytes of printable characters. The default is the program's name in the `User-Agent`.
    ///
    /// In the client options of a `Manager`, the name is the default of all controllers of the manager. Without a name
    /// there, the default of each controller is `program/controller`.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Returns the field manager that was set; `None` means the server's default.
    pub fn given_field_manager(&self) -> Option<&str> {
        self.field_manager.as_deref()
    }

    /// Sets how the server treats fields of a request that it does not know (`fieldValidation`): by default it drops
    /// them and sends a warning. It always refuses an apply with such fields.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// Limits the client to one namespace. An object, key or list of a namespaced kind without a namespace gets this
    /// namespace, and another namespace is refused. Cluster-scoped kinds are not affected.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Sets whether the server checks every write and stores nothing (`dryRun=All`). Off by default.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether `apply` takes fields over from other managers. On by default, because a controller is the authority
    /// on its fields. If off, a field that another manager set to another value leads to
    /// [`Error::ApplyConflict`](crate::Error::ApplyConflict).
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets when a patch carries the resource version that it was computed from. Default: [`OptimisticLock::Lists`].
    pub fn lock(mut self, lock: OptimisticLock) -> Self {
        self.lock = lock;
        self
    }

    /// Sets whether differences are sent as strategic merge patches, which change a list element by element if its type
    /// has a merge key: the containers of a Pod, the conditions of a status, owner references. Elements that other
    /// clients added stay, so that [`OptimisticLock::Lists`] needs no version for such a list.
    ///
    /// Only Kubernetes' own kinds have merge keys. A merge patch is sent for other kinds, and for an object with two
    /// elements of one key (ports that differ only in their protocol). If another client removed an element that the
    /// difference changes, the element comes back with only the changed fields, unless [`OptimisticLock::Always`] is
    /// set. Off by default.
    pub fn strategic(mut self, strategic: bool) -> Self {
        self.strategic = strategic;
        self
    }

    /// Sets the largest number of attempts to send a difference, if other clients change the object before each
    /// attempt; at least 1. Five by default.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// Sets the total time that one request waits for repetitions if the server names a time (`Retry-After`). A request
    /// is repeated after a 429, and a read also after a 5xx. A write is not repeated after a 5xx, because the server
    /// may have executed it.
    ///
    /// 10 s by default. The error is returned once this time or ten repetitions are used up, or if the server names
    /// no time. With zero, no request is sent again; with `Duration::MAX`, only the number of repetitions is bounded.
    pub fn retry_after_limit(mut self, retry_after_limit: Duration) -> Self {
        self.retry_after_limit = retry_after_limit;
        self
    }

    /// Sets the time limit until the server begins to answer a request: an attempt of a write, or a page of a list. 65
    /// s by default, a little more than the limit of kube-apiserver itself (`--request-timeout`, 60 s). Zero and
    /// `Duration::MAX` mean no limit.
    ///
    /// A request past the limit fails with a transport error; the outcome of a write is then unknown
    /// ([`is_outcome_unknown`](crate::Error::is_outcome_unknown)). An answer that has begun fails after a pause of 30
    /// s. Watches of the cache, and cached reads that ask the server about their own writes, always have the default
    /// limit.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Sets the writes that a cached read waits for; by default the writes of its own request key.
    pub fn read_consistency(mut self, consistency: ReadConsistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Sets how long a cached read waits until the cache has seen the writes that the read must see; 10 s by default.
    /// After this time a get asks the server once, and a list fails with
    /// [`Error::OwnWritesUnseen`](crate::Error::OwnWritesUnseen). With zero no read waits; with `Duration::MAX` a read
    /// waits without a limit.
    pub fn own_write_wait(mut self, bound: Duration) -> Self {
        self.own_write_wait = bound;
        self
    }

    /// Sets whether a `get` may return the object from the server's answer to a write of the same request, instead of
    /// waiting until the cache has seen the write (RYOW-12). On by default. A `list` always waits.
    ///
    /// The object is as the cache would hold it at the version of the write. Once the cache has reached that version,
    /// reads return the object of the cache.
    pub fn own_answers(mut self, own_answers: bool) -> Self {
        self.own_answers = own_answers;
        self
    }

    /// Sets the metrics that the client updates. Default: none; a manager passes the metrics of its registry.
    pub fn metrics(mut self, metrics: ClientMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns whether metrics were set. A manager sets the metrics of its registry only if this is false.
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Adds an observer. It is called when a write begins and when its outcome is known. Dry runs are not reported.
    pub fn observe_writes(mut self, observer: Arc<dyn WriteObserver>) -> Self {
        self.observers.push(observer);
        self
    }

    /// Sets the observer of the times that the client waits for the server or for its cache. Default: none.
    pub fn observe_waits(mut self, observer: Arc<dyn WaitObserver>) -> Self {
        self.wait_observer = Some(observer);
        self
    }

    pub(crate) fn write(&self) -> WriteOptions {
        let mut options = WriteOptions::new().dry_run(self.dry_run);
        options.field_manager.clone_from(&self.field_manager);
        options.field_validation = self.field_validation;
        options
    }

    /// Returns the caller's options of a delete; the delete is also a dry run if this client is for dry runs.
    pub(crate) fn delete(&self, options: &DeleteOptions) -> DeleteOptions {
        options.clone().dry_run(self.dry_run || options.dry_run)
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}
