//! Driver: requests to stop: the first one asks, the second one insists.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

/// When to stop, and when to stop at once.
///
/// Made by [`shutdown_signal`], [`Shutdown::when`], or from a [`CancellationToken`].
#[must_use = "a manager stops when it is given this"]
pub struct Shutdown {
    stages: Stages,
}

enum Stages {
    /// SIGINT and SIGTERM, however often they come.
    Signals(Signals),
    /// One request, and no way to insist.
    Once(Pin<Box<dyn Future<Output = ()> + Send>>),
}

/// Stops on SIGINT or SIGTERM, and at once on a second one.
///
/// The signals are taken over when the manager starts; until then they end the process as usual.
///
/// # Examples
///
/// ```no_run
/// # async fn run(manager: steersman_manager::Manager) -> Result<(), steersman_manager::Error> {
/// manager.start(steersman_manager::shutdown_signal()).await
/// # }
/// ```
pub fn shutdown_signal() -> Shutdown {
    Shutdown {
        stages: Stages::Signals(Signals::default()),
    }
}

impl Shutdown {
    /// Stops when the future resolves.
    pub fn when(request: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            stages: Stages::Once(Box::pin(request)),
        }
    }

    /// Never stops by itself: for a manager whose future is dropped.
    pub fn never() -> Self {
        Self::when(pending())
    }

    /// Takes the signals over, if signals are what this waits for.
    pub(crate) fn install(&mut self) -> std::io::Result<()> {
        match &mut self.stages {
            Stages::Signals(signals) => signals.install(),
            Stages::Once(_) => Ok(()),
        }
    }

    /// Resolves at the first request. Cancel safe; not to be awaited again once it resolved.
    pub(crate) async fn requested(&mut self) {
        match &mut self.stages {
            Stages::Signals(signals) => signals.next().await,
            Stages::Once(request) => request.as_mut().await,
        }
    }

    /// Resolves at the request after the first. Cancel safe.
    pub(crate) async fn insisted(&mut self) {
        match &mut self.stages {
            Stages::Signals(signals) => signals.next().await,
            Stages::Once(_) => pending().await,
        }
    }
}

impl From<CancellationToken> for Shutdown {
    fn from(token: CancellationToken) -> Self {
        Self::when(token.cancelled_owned())
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stages {
            Stages::Signals(_) => "Shutdown(SIGINT or SIGTERM)",
            Stages::Once(_) => "Shutdown(future)",
        })
    }
}

#[cfg(unix)]
#[derive(Default)]
struct Signals {
    installed: Option<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Signals {
    fn install(&mut self) -> std::io::Result<()> {
        use tokio::signal::unix::{SignalKind, signal};
        if self.installed.is_none() {
            self.installed = Some((
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
            ));
        }
        Ok(())
    }

    async fn next(&mut self) {
        match &mut self.installed {
            Some((interrupt, terminate)) => {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
            }
            None => pending().await,
        }
    }
}

#[cfg(not(unix))]
#[derive(Default)]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn install(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    async fn next(&mut self) {
        // A console that cannot be listened to never asks to stop.
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    }
}
