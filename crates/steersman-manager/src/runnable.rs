//! Handle: something a manager starts and stops: it declares its name and its group.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::BoxError;
use crate::order::Group;

/// Something with a life of its own that a manager starts, supervises and stops.
///
/// # What the implementor must do
///
/// End soon after [`RunContext::cancelled`] fires; what has not ended within the manager's grace period is
/// dropped at its next await. Ending earlier without an error is fine; an error, or a panic, ends the
/// manager.
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
///         context.ready();
///         context.cancelled().await;
///         Ok(())
///     }
/// }
/// ```
pub trait Runnable: Send + 'static {
    /// A name for errors and logs.
    fn name(&self) -> String;

    /// When it starts and stops. There is no default: a wrong guess shows only on the day of a
    /// failover.
    fn group(&self) -> Group;

    /// Called once, when the manager is told to start or, if it runs already, when this is added: before
    /// anything of its group runs. For what others may rely on from then on; it must not block.
    fn begin(&mut self) {}

    /// Runs until cancelled.
    fn run(self, context: RunContext) -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// A [`Runnable`] made of a closure; see [`from_fn`].
pub struct FromFn<F> {
    name: String,
    group: Group,
    run: F,
}

/// What a runnable is given: when to stop, and a way to say that it is ready.
#[derive(Debug)]
pub struct RunContext {
    cancel: CancellationToken,
    ready: parking_lot::Mutex<Option<Ready>>,
}

/// Held while a runnable is not ready; dropping it says that it is.
#[derive(Debug)]
pub(crate) struct Ready {
    #[expect(dead_code, reason = "that it exists is what it says")]
    pub(crate) guard: mpsc::Sender<Infallible>,
}

/// A runnable whose type is forgotten.
pub(crate) struct Erased {
    pub(crate) name: String,
    pub(crate) group: Group,
    runnable: Box<dyn Start>,
}

/// A [`Runnable`] that can be boxed.
trait Start: Send {
    fn begin(&mut self);
    fn run(self: Box<Self>, context: RunContext) -> Running;
}

/// A runnable on its way.
pub(crate) type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// Makes a runnable of a closure.
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
pub fn from_fn<F, Fut>(name: impl Into<String>, group: Group, run: F) -> FromFn<F>
where
    F: FnOnce(RunContext) -> Fut + Send + 'static,
    Fut: Future<Output = Result<(), BoxError>> + Send,
{
    FromFn {
        name: name.into(),
        group,
        run,
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

    async fn run(self, context: RunContext) -> Result<(), BoxError> {
        (self.run)(context).await
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn")
            .field("name", &self.name)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}

impl RunContext {
    pub(crate) fn new(cancel: CancellationToken, ready: Ready) -> Self {
        Self {
            cancel,
            ready: parking_lot::Mutex::new(Some(ready)),
        }
    }

    /// Says that the next group may start. Ending says so too; saying it twice changes nothing.
    pub fn ready(&self) {
        drop(self.ready.lock().take());
    }

    /// Resolves when it is time to stop.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: awaiting again resolves as the first would have.
    pub async fn cancelled(&self) {
        self.cancel.cancelled().await;
    }

    /// The same as a token, to hand on.
    #[must_use]
    pub fn cancellation(&self) -> CancellationToken {
        self.cancel.clone()
    }
}

impl Erased {
    pub(crate) fn new(runnable: impl Runnable) -> Self {
        Self {
            name: runnable.name(),
            group: runnable.group(),
            runnable: Box::new(runnable),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.runnable.begin();
    }

    pub(crate) fn run(self, context: RunContext) -> Running {
        self.runnable.run(context)
    }
}

impl<R: Runnable> Start for R {
    fn begin(&mut self) {
        Runnable::begin(self);
    }

    fn run(self: Box<Self>, context: RunContext) -> Running {
        Box::pin(Runnable::run(*self, context))
    }
}

impl fmt::Debug for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Erased")
            .field("name", &self.name)
            .field("group", &self.group)
            .finish_non_exhaustive()
    }
}
