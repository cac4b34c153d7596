//! Driver: requests to stop a manager. The first request stops in order, the second at once.

use std::fmt;
use std::future::{Future, pending};
use std::panic::AssertUnwindSafe;

use futures::FutureExt as _;
use futures::stream::{self, BoxStream, Fuse, Stream, StreamExt};
use steersman_object::panic_text;
use tokio_util::sync::CancellationToken;
use tracing::error;

/// A source of requests to stop a manager. The first request stops in order, the second at once.
///
/// Created by [`shutdown_signal`], [`Shutdown::when`], or from a [`CancellationToken`].
#[must_use = "a manager stops when it is given this"]
pub struct Shutdown {
    stages: Stages,
    asked: bool,
}

enum Stages {
    /// SIGINT and SIGTERM, any number of times.
    Signals(Signals),
    Requests(Fuse<BoxStream<'static, ()>>),
}

/// Requests a stop on SIGINT or SIGTERM, and a stop at once on a second signal.
///
/// The signals are handled from the start of the manager on; until then they end the process as usual.
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
        asked: false,
    }
}

impl Shutdown {
    /// Requests a stop when the future resolves. There is no second request.
    pub fn when(request: impl Future<Output = ()> + Send + 'static) -> Self {
        Self::requests(stream::once(request))
    }

    /// Requests a stop at the first item of a stream, and a stop at once at the second. The end of the stream is no
    /// request.
    pub fn requests(requests: impl Stream<Item = ()> + Send + 'static) -> Self {
        Self {
            stages: Stages::Requests(requests.boxed().fuse()),
            asked: false,
        }
    }

    /// Returns a source without requests, for a manager that is stopped by dropping its future.
    pub fn never() -> Self {
        Self::when(pending())
    }

    /// Begins to handle SIGINT and SIGTERM, if this source reads signals.
    pub(crate) fn install(&mut self) -> std::io::Result<()> {
        match &mut self.stages {
            Stages::Signals(signals) => signals.install(),
            Stages::Requests(_) => Ok(()),
        }
    }

    /// Waits for the first request. Cancel safe.
    pub(crate) async fn requested(&mut self) {
        if !self.asked {
            self.next().await;
            self.asked = true;
        }
    }

    /// Waits for the request after the first one. If a failure stopped the manager without a request, two requests are
    /// needed. Cancel safe.
    pub(crate) async fn requested_again(&mut self) {
        self.requested().await;
        self.next().await;
    }

    async fn next(&mut self) {
        match &mut self.stages {
            Stages::Signals(signals) => signals.next().await,
            Stages::Requests(requests) => {
                match AssertUnwindSafe(requests.next()).catch_unwind().await {
                    Ok(Some(())) => {}
                    Ok(None) => pending().await,
                    // MGR-5: a panic of the source counts as a request to stop in order. The stream cannot be polled
                    // again after its panic.
                    Err(payload) => {
                        *requests = stream::pending().boxed().fuse();
                        let panic = panic_text(&*payload);
                        error!(panic, "the request to stop panicked: the manager stops");
                    }
                }
            }
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
            Stages::Requests(_) => "Shutdown(requests)",
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
        // A console that cannot handle Ctrl-C requests no stop.
        if tokio::signal::ctrl_c().await.is_err() {
            pending::<()>().await;
        }
    }
}
