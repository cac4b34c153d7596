//! Driver: ctrl-c and the signal to terminate.

use crate::error::Error;

/// Reports that the program shall end. A request that comes while nothing waits is not lost.
#[derive(Debug)]
pub(crate) struct Interruption {
    #[cfg(unix)]
    signals: [tokio::signal::unix::Signal; 3],
}

impl Interruption {
    /// Begins to listen. From now on the signals do not end the process.
    #[cfg(unix)]
    pub(crate) fn listen() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |kind| signal(kind).map_err(Error::file("the signals", "received"));
        let signals = [
            listen(SignalKind::interrupt())?,
            listen(SignalKind::terminate())?,
            listen(SignalKind::hangup())?,
        ];
        Ok(Self { signals })
    }

    /// Begins to listen. From now on the signals do not end the process.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> Result<Self, Error> {
        Ok(Self {})
    }

    /// Waits for a signal. Cancel safe.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }

    /// Waits for a signal. Cancel safe.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        // Without handlers of signals the program ends by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
