//! Words: how a client signs its writes, where they land, and when a difference insists on a version.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use steersman_api::{DEFAULT_REQUEST_TIMEOUT, DeleteOptions, FieldValidation, WriteOptions};

use crate::consistency::ReadConsistency;
use crate::metrics::ClientMetrics;
use crate::write::WriteObserver;

/// How a [`Client`](crate::Client) writes, and what its reads wait for.
#[derive(Clone)]
#[must_use]
pub struct ClientOptions {
    pub(crate) field_manager: Option<String>,
    pub(crate) field_validation: Option<FieldValidation>,
    pub(crate) namespace: Option<String>,
    pub(crate) dry_run: bool,
    pub(crate) force: bool,
    pub(crate) lock: Lock,
    pub(crate) strategic: bool,
    pub(crate) attempts: u32,
    pub(crate) patience: Duration,
    pub(crate) observers: Vec<Arc<dyn WriteObserver>>,
    pub(crate) consistency: ReadConsistency,
    pub(crate) own_write_wait: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) metrics: Option<ClientMetrics>,
}

/// Whether a difference that is sent names the version it was computed from.
///
/// The server refuses such a patch (conflict) when the object has changed since; the client then reads
/// it live and computes the difference anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lock {
    /// Where the patch sets or removes a list as a whole: what others added to it meanwhile would be lost. A merge
    /// patch has no smaller unit; a [strategic](ClientOptions::strategic) one has. And where it is one of a status, because the server does not
    /// tell custom resources of one name apart by the uid there.
    #[default]
    Lists,
    /// Always.
    Always,
    /// Never: the last writer of a field, or of a whole list, wins.
    Never,
}

impl ClientOptions {
    /// The server's default field manager and field validation, [`Lock::Lists`], five attempts, a patience of
    /// 10 s, and an apply that takes fields over.
    pub fn new() -> Self {
        Self {
            field_manager: None,
            field_validation: None,
            namespace: None,
            dry_run: false,
            force: true,
            lock: Lock::default(),
            strategic: false,
            attempts: 5,
            patience: Duration::from_secs(10),
            observers: Vec::new(),
            consistency: ReadConsistency::default(),
            own_write_wait: Duration::from_secs(10),
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            metrics: None,
        }
    }

    /// The name under which the server notes who set which field (`fieldManager`): at most 128 bytes of
    /// printable characters. Without one, it is what the program calls itself in its `User-Agent`.
    ///
    /// Of a manager's client it is the name of each controller that was declared without one of its own; without
    /// one here as well, that is `program/controller`.
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// The field manager that was set, if one was.
    #[must_use]
    pub fn given_field_manager(&self) -> Option<&str> {
        self.field_manager.as_deref()
    }

    /// What the server does about fields that it does not know (`fieldValidation`): it warns where nothing is
    /// set here. Apply is always strict.
    pub fn field_validation(mut self, validation: FieldValidation) -> Self {
        self.field_validation = Some(validation);
        self
    }

    /// The one namespace in which the client reads and writes: it is filled in where an object, a key or a
    /// list of a namespaced kind names none, and another one is refused. Cluster-scoped kinds are not concerned.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Whether the server should check every write and store nothing (`dryRun=All`).
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Whether `apply` takes fields over from other managers. It does, because a controller that is the
    /// authority on a field has nobody to ask; without it, a field that another manager set to another value is
    /// [`Error::ApplyConflict`](crate::Error::ApplyConflict).
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// When differences insist on the version they were computed from.
    pub fn lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// Whether differences are sent as strategic merge patches, which change lists element by element where the
    /// type of a list has a merge key: the containers of a Pod, the conditions of a status, owner references. What
    /// others put into such a list stays, so that [`Lock::Lists`] does not insist on a version for it.
    ///
    /// Only Kubernetes' own kinds have merge keys; differences of any other are merge patches all the same, and so
    /// are those of an object with two elements of one key (ports that differ in their protocol alone). An
    /// element that is changed here, and was removed by somebody else meanwhile, comes back with what is changed
    /// and nothing else, unless [`Lock::Always`] is set. Off by default.
    pub fn strategic(mut self, strategic: bool) -> Self {
        self.strategic = strategic;
        self
    }

    /// How often a change is tried when the object keeps changing; at least once. Five by default.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// How long, in all, one request waits where the server says when to come again (`Retry-After`): any request
    /// that was answered 429, and reads that were answered 5xx. A write that was answered 5xx may have been done,
    /// and is not sent again.
    ///
    /// 10 s by default. Beyond it, after ten repetitions, and where the server names no time, the error is the
    /// answer. Zero means that nothing is sent again; `Duration::MAX` leaves the bound to the number.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How long the server may take until its answer to one request begins: each attempt of a write, each page of
    /// a list. 65 s by default, a little more than kube-apiserver gives itself (`--request-timeout`, 60 s). Zero
    /// and `Duration::MAX` mean no limit.
    ///
    /// Past it the request has failed with an error of transport; what became of a write is unknown then
    /// ([`is_outcome_unknown`](crate::Error::is_outcome_unknown)). An answer that has begun fails where it pauses
    /// for 30 s. Watches of the cache, and
    /// cached reads that ask the server about their own writes, are not concerned.
    pub fn request_timeout(mut self, limit: Duration) -> Self {
        self.request_timeout = limit;
        self
    }

    /// Whose writes a cached read sees; those of its own key by default.
    pub fn read_consistency(mut self, consistency: ReadConsistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// How long a cached read waits for the cache to see what it has to see; 10 s by default. Past it a get
    /// asks the server, once, and a list is an error ([`Error::OwnWritesUnseen`](crate::Error::OwnWritesUnseen)).
    pub fn own_write_wait(mut self, bound: Duration) -> Self {
        self.own_write_wait = bound;
        self
    }

    /// Counts waits for one's own writes; a manager sets it.
    pub fn metrics(mut self, metrics: ClientMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Whether metrics were set.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Who hears of every write, besides those who are there already.
    pub fn observe_writes(mut self, observer: Arc<dyn WriteObserver>) -> Self {
        self.observers.push(observer);
        self
    }
}

impl ClientOptions {
    /// Returns the options of creates, updates and patches.
    pub(crate) fn write(&self) -> WriteOptions {
        let mut options = WriteOptions::new().dry_run(self.dry_run);
        options.field_manager.clone_from(&self.field_manager);
        options.field_validation = self.field_validation;
        options
    }

    /// Returns the options of a delete: those of the caller, and this client's dry run.
    pub(crate) fn delete(&self, options: &DeleteOptions) -> DeleteOptions {
        options.clone().dry_run(self.dry_run || options.dry_run)
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("field_manager", &self.field_manager)
            .field("field_validation", &self.field_validation)
            .field("namespace", &self.namespace)
            .field("dry_run", &self.dry_run)
            .field("force", &self.force)
            .field("lock", &self.lock)
            .field("strategic", &self.strategic)
            .field("attempts", &self.attempts)
            .field("patience", &self.patience)
            .field("observers", &self.observers.len())
            .field("consistency", &self.consistency)
            .field("own_write_wait", &self.own_write_wait)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::new()
    }
}
