//! Driver: the requests to end this process: signals, and the end of the parent process.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::process::BenchResult;

/// The requests to end, one element each.
pub(crate) type Stops = mpsc::UnboundedReceiver<()>;

/// The time after the end of the parent process in which a signal counts as the same request: a
/// terminal sends an interrupt to all processes of a group.
const TOGETHER: Duration = Duration::from_secs(2);

/// The requests to end so far.
#[derive(Debug, Default)]
struct StopRequests {
    has_signal: bool,
    closed: Option<Instant>,
}

impl StopRequests {
    fn signal(&mut self, now: Instant) -> bool {
        let is_first = !self.has_signal;
        self.has_signal = true;
        let is_same = |closed| now.saturating_duration_since(closed) < TOGETHER;
        !(is_first && self.closed.is_some_and(is_same))
    }

    /// Returns whether the end of the parent process is a new request.
    fn close(&mut self, now: Instant) -> bool {
        self.closed = Some(now);
        !self.has_signal
    }
}

/// Reports interrupts and termination signals from now on instead of ending the process, and the
/// end of `parent`, a pipe from the parent process, if there is one.
pub(crate) fn listen(parent: Option<impl Read + Send + 'static>) -> BenchResult<Stops> {
    let (stop, stops) = mpsc::unbounded_channel();
    let asked = Arc::new(Mutex::new(StopRequests::default()));
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let mut signals = signal(kind)?;
        let (stop, asked) = (stop.clone(), Arc::clone(&asked));
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                let counts = asked.lock().signal(Instant::now());
                if counts && stop.send(()).is_err() {
                    return;
                }
            }
        });
    }
    if let Some(mut parent) = parent {
        std::thread::spawn(move || {
            let mut piece = [0; 64];
            while matches!(parent.read(&mut piece), Ok(1..)) {}
            if asked.lock().close(Instant::now()) {
                // Fails if the receiver is dropped.
                let _ = stop.send(());
            }
        });
    }
    Ok(stops)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use std::io::Empty;

    use tokio::time::Instant;

    use super::{StopRequests, TOGETHER, listen};

    #[tokio::test]
    async fn both_signals_ask_to_end() {
        let mut stops = listen(None::<Empty>).unwrap();
        for signal in ["INT", "TERM"] {
            let command = format!("kill -{signal} {}", std::process::id());
            let sent = Command::new("sh").args(["-c", &command]).status().unwrap();
            assert!(sent.success(), "{signal}");
            stops.recv().await.unwrap();
        }
    }

    #[tokio::test]
    async fn the_end_of_the_process_that_started_this_one_asks_to_end() {
        let mut stops = listen(Some(std::io::empty())).unwrap();
        stops.recv().await.unwrap();
    }

    #[test]
    fn an_interrupt_of_both_processes_is_one_request() {
        let now = Instant::now();
        let mut asked = StopRequests::default();
        assert!(asked.signal(now) && !asked.close(now), "a signal first");
        assert!(asked.signal(now), "a second interrupt");
        let mut asked = StopRequests::default();
        assert!(asked.close(now) && !asked.signal(now), "the end first");
        assert!(asked.signal(now), "a second interrupt");
        let mut asked = StopRequests::default();
        assert!(asked.close(now) && asked.signal(now + TOGETHER), "later");
    }
}
