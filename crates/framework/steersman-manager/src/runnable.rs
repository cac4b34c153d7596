//! Handle: a runnable: a part of an operator that a manager starts and stops.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::BoxError;
use crate::health::Health;
use crate::monitor::Monitor;
use crate::order::Group;

/// A part of an operator that a manager starts, supervises and stops.
///
/// # What an implementor must do
///
/// End soon after [`RunContext::cancelled`] fires; a runnable that has not ended within the manager's grace period is
/// dropped at its next await. A runnable may end earlier without an error. An error or a panic ends the manager, which
/// then stops all other runnables in order and with their grace (MGR-5).
///
/// # Errors of a runnable
///
/// `?` converts every [`std::error::Error`], and the error of reconcilers ([`steersman_controller::Error`], the
/// facade's `Error`), into a [`BoxError`].
///
/// # Examples
///
/// ```
/// use steersman_manager::{BoxError, Group, RunContext, Runnable};
///
/// struct Ticker;
///
/// impl Runnable for Ticker {
///     fn name(&self) -> String {
///         "ticker".to_owned()
///     }
///
///     fn group(&self) -> Group {
///         Group::Others
///     }
///
///     async fn run(self, context: RunContext) -> Result<(), BoxError> {
///         context.cancelled().await;
///         Ok(())
///     }
/// }
/// ```
pub trait Runnable: Send + 'static {
    /// Returns the name of the runnable for errors and logs.
    fn name(&self) -> String;

    /// Returns the group, which decides when the runnable starts and stops. There is no default, because a wrong group
    /// shows only at a failover.
    fn group(&self) -> Group;

    /// Returns whether the runnable calls [`RunContext::ready`]. The default is `false`: the next
    /// group does not wait for the runnable.
    ///
    /// With `true`, no later group starts before the runnable calls `ready` or ends; meanwhile the log names the
    /// runnable.
    fn says_when_ready(&self) -> bool {
        false
    }

    /// Prepares state that other runnables rely on. Called once, before a runnable of the group runs: when the manager
    /// starts, or, if it runs already, when the runnable is added. Must not block. A panic counts as a panic of the
    /// runnable at its start.
    fn begin(&mut self) {}

    /// Runs until [`RunContext::cancelled`] fires.
    fn run(self, context: RunContext) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// A [`Runnable`] made of a closure; see [`from_fn`].
#[derive(derive_more::Debug)]
#[debug("FromFn {{ name: {name:?}, group: {group:?}, .. }}")]
pub struct FromFn<F> {
    name: String,
    group: Group,
    says_when_ready: bool,
    run: F,
}

/// What a runnable gets from its manager: its cancellation, its readiness, and the health of the manager.
#[derive(derive_more::Debug)]
#[debug("RunContext {{ cancel: {cancel:?}, is_ready: {}, .. }}", ready.lock().is_none())]
pub struct RunContext {
    cancel: CancellationToken,
    pub(crate) monitor: Arc<Monitor>,
    // Reports readiness when it is dropped; `None` after that.
    ready: parking_lot::Mutex<Option<DropGuard>>,
}

#[derive(derive_more::Debug)]
#[debug("Erased {{ name: {name:?}, group: {group:?}, .. }}")]
pub(crate) struct ErasedRunnable {
    pub(crate) name: String,
    pub(crate) group: Group,
    pub(crate) says_when_ready: bool,
    runnable: Box<dyn Start>,
    /// The payload of a panic of `begin`, which is raised again by the run.
    broken: Option<Box<dyn Any + Send>>,
}

/// The object-safe form of [`Runnable`].
#[async_trait]
trait Start: Send {
    fn begin(&mut self);
    async fn run(self: Box<Self>, context: RunContext) -> Result<(), BoxError>;
}

/// Makes a runnable of a closure. The next group does not wait for the runnable, except after
/// [`saying_when_ready`](FromFn::saying_when_ready).
///
/// # Examples
///
/// ```
/// use steersman_manager::{Group, runnable};
///
/// let ticker = runnable::from_fn("ticker", Group::Others, |context| async move {
///     context.cancelled().await;
///     Ok(())
/// });
/// # let _ = ticker;
/// ```
///
/// A function with another error type is called in a closure:
///
/// ```
/// use steersman_controller::Error;
/// use steersman_manager::{Group, RunContext, runnable};
///
/// async fn import(context: RunContext) -> Result<(), Error> {
///     context.cancelled().await;
///     Err(Error::msg("half of it is missing"))
/// }
///
/// let importer = runnable::from_fn("importer", Group::Others, |context| async move {
///     Ok(import(context).await?)
/// });
/// # let _ = importer;
/// ```
pub fn from_fn<F, Fut>(name: impl Into<String>, group: Group, run: F) -> FromFn<F>
where
    F: FnOnce(RunContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    FromFn {
        name: name.into(),
        group,
        says_when_ready: false,
        run,
    }
}

impl<F> FromFn<F> {
    /// Promises that the closure calls [`RunContext::ready`]; the next group waits for that call.
    ///
    /// # Examples
    ///
    /// ```
    /// use steersman_manager::{Group, runnable};
    ///
    /// let server = runnable::from_fn("health", Group::HttpServers, |context| async move {
    ///     let socket = std::net::TcpListener::bind("127.0.0.1:0")?;
    ///     context.ready();
    ///     context.cancelled().await;
    ///     drop(socket);
    ///     Ok(())
    /// })
    /// .saying_when_ready();
    /// # let _ = server;
    /// ```
    #[must_use]
    pub fn saying_when_ready(mut self) -> Self {
        self.says_when_ready = true;
        self
    }
}

impl<F, Fut> Runnable for FromFn<F>
where
    F: FnOnce(RunContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    fn name(&self) -> String {
        self.name.clone()
    }

    fn group(&self) -> Group {
        self.group
    }

    fn says_when_ready(&self) -> bool {
        self.says_when_ready
    }

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        (self.run)(context).await
    }
}

impl RunContext {
    pub(crate) fn new(
        cancel: CancellationToken,
        ready: Option<DropGuard>,
        monitor: Arc<Monitor>,
    ) -> Self {
        Self {
            cancel,
            monitor,
            ready: parking_lot::Mutex::new(ready),
        }
    }

    /// Reports that the next group may start. The end of the runnable reports it, too. Further calls, and calls without
    /// the promise of [`Runnable::says_when_ready`], have no effect.
    pub fn ready(&self) {
        drop(self.ready.lock().take());
    }

    /// Waits until the runnable should stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a later call returns when the dropped call would have returned.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// Returns the token of [`cancelled`](Self::cancelled). Cancelling the token stops this runnable alone (MGR-5).
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }

    /// Returns the present health of the manager; see [`Manager::health`](crate::Manager::health).
    pub fn health(&self) -> Health {
        self.monitor.health()
    }

    /// Records the end of a framework task. Unless it was asked to stop, the process is no longer live (HEALTH-3).
    pub(crate) fn note_end(&self, name: &str) {
        if !self.cancel.is_cancelled() {
            self.monitor.ended_tasks.lock().push(name.to_owned());
        }
    }
}

impl ErasedRunnable {
    pub(crate) fn new(runnable: impl Runnable) -> Self {
        Self {
            name: runnable.name(),
            group: runnable.group(),
            says_when_ready: runnable.says_when_ready(),
            runnable: Box::new(runnable),
            broken: None,
        }
    }

    pub(crate) fn begin(&mut self) {
        let begin = AssertUnwindSafe(|| self.runnable.begin());
        self.broken = catch_unwind(begin).err();
    }

    /// Runs the runnable. Called inside the task of the runnable, because both the call and its future may block or
    /// panic (MGR-5).
    pub(crate) async fn run(self, context: RunContext) -> Result<(), BoxError> {
        if let Some(panic) = self.broken {
            resume_unwind(panic);
        }
        self.runnable.run(context).await
    }
}

#[async_trait]
impl<R: Runnable> Start for R {
    fn begin(&mut self) {
        Runnable::begin(self);
    }

    async fn run(self: Box<Self>, context: RunContext) -> Result<(), BoxError> {
        Runnable::run(*self, context).await
    }
}
