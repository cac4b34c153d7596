//! Driver: the signals that ask this process to end.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::process::Outcome;

/// Each asks once more to end.
pub(crate) type Stops = mpsc::UnboundedReceiver<()>;

/// From here on an interrupt and a request to terminate are told here, and end nothing by themselves.
pub(crate) fn listen() -> Outcome<Stops> {
    let (stop, stops) = mpsc::unbounded_channel();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)?;
        let stop = stop.clone();
        tokio::spawn(
            async move { while signals.recv().await.is_some() && stop.send(()).is_ok() {} },
        );
    }
    Ok(stops)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::listen;

    #[tokio::test]
    async fn both_signals_ask_to_end() {
        let mut stops = listen().unwrap();
        for signal in ["INT", "TERM"] {
            let command = format!("kill -{signal} {}", std::process::id());
            let sent = Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(sent.success(), "{signal}");
            stops.recv().await.unwrap();
        }
    }
}
