//! Driver: waits for the end of the session: ctrl-c, SIGTERM, or the quit key of the terminal view.

use futures::future::OptionFuture;
use tokio::sync::oneshot;

use crate::error::Error;

/// Waits for the request to end the session. A request that arrives while nothing waits is kept.
#[derive(Debug)]
pub(crate) struct Interruption {
    signals: Signals,
    /// Receives the quit key of the terminal view. `None` without a view, and after the key.
    key: Option<oneshot::Receiver<()>>,
}

#[cfg(unix)]
type Signals = [tokio::signal::unix::Signal; 3];
#[cfg(not(unix))]
type Signals = ();

impl Interruption {
    /// Installs the signal handlers. From now on, the signals do not end the process.
    pub(crate) fn listen(key: Option<oneshot::Receiver<()>>) -> Result<Self, Error> {
        Ok(Self {
            signals: signals()?,
            key,
        })
    }

    /// Waits for a signal or for the key. Cancel safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            // A closed channel, the sign of a terminal view that has failed, ends the session as well.
            Some(_) = OptionFuture::from(self.key.as_mut()) => {}
            () = signal(&mut self.signals) => return,
        }
        self.key = None;
    }
}

#[cfg(unix)]
fn signals() -> Result<Signals, Error> {
    use tokio::signal::unix::{SignalKind, signal};

    let listen = |kind| signal(kind).map_err(Error::file("the signals", "received"));
    Ok([
        listen(SignalKind::interrupt())?,
        listen(SignalKind::terminate())?,
        listen(SignalKind::hangup())?,
    ])
}

#[cfg(not(unix))]
fn signals() -> Result<Signals, Error> {
    Ok(())
}

/// Waits for a signal. Cancel safe.
#[cfg(unix)]
async fn signal(signals: &mut Signals) {
    let [interrupt, terminate, hangup] = signals;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}

/// Waits for a signal. Cancel safe.
#[cfg(not(unix))]
async fn signal((): &mut Signals) {
    // Without a signal handler, ctrl-c ends the process itself, so this future waits for ever.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
