//! Driver: ctrl-c, the signal to terminate, and the key of the view that ends the session.

use futures::future::OptionFuture;
use tokio::sync::oneshot;

use crate::error::Error;

/// Reports that the program shall end. A request that comes while nothing waits is not lost.
#[derive(Debug)]
pub(crate) struct Interruption {
    signals: Signals,
    /// The key of the view, to which ctrl-c is a key and no signal; `None` without a view, or after the key.
    key: Option<oneshot::Receiver<()>>,
}

#[cfg(unix)]
type Signals = [tokio::signal::unix::Signal; 3];
#[cfg(not(unix))]
type Signals = ();

impl Interruption {
    /// Begins to listen. From now on the signals do not end the process.
    pub(crate) fn listen(key: Option<oneshot::Receiver<()>>) -> Result<Self, Error> {
        Ok(Self {
            signals: signals()?,
            key,
        })
    }

    /// Waits for a signal or for the key. Cancel safe.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            // A view that has broken down counts as well.
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
    // Without handlers of signals the program ends by itself.
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}
