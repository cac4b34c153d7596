//! Handle: what one test logged.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    static LOG: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

type Buffer = Arc<Mutex<Vec<u8>>>;

/// The log of the thread that made it, until it is dropped.
///
/// Every test has a thread of its own, and a current-thread runtime keeps its tasks there, so tests
/// that run side by side do not see each other's lines. (One subscriber per test would not do:
/// tracing caches, for the whole process, whether anybody listens to a call site.)
#[derive(Debug)]
#[must_use = "the log is kept while this lives"]
pub struct CapturedLog {
    lines: Buffer,
}

/// Begins to keep what this thread logs at `INFO` and above.
///
/// The first call in a process installs a subscriber for all of it; where there is one already,
/// nothing is captured.
pub fn capture() -> CapturedLog {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new("info"))
            .with_writer(ThreadLog)
            .with_ansi(false)
            .finish();
        // Fails where the process has a subscriber, which the documentation says.
        let _ = tracing::subscriber::set_global_default(subscriber);
    });
    let lines = Buffer::default();
    LOG.set(Some(Arc::clone(&lines)));
    CapturedLog { lines }
}

impl CapturedLog {
    /// What was logged so far.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.lines.lock()).into_owned()
    }
}

impl Drop for CapturedLog {
    fn drop(&mut self) {
        LOG.set(None);
    }
}

struct ThreadLog;

impl MakeWriter<'_> for ThreadLog {
    type Writer = Self;

    fn make_writer(&self) -> Self::Writer {
        Self
    }
}

impl io::Write for ThreadLog {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A thread that is ending has no log any more.
        let _ = LOG.try_with(|log| {
            if let Some(lines) = &*log.borrow() {
                lines.lock().extend_from_slice(bytes);
            }
        });
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own_lines() {
        let log = capture();
        tracing::warn!(place = "here", "said");
        let other = std::thread::spawn(|| {
            let log = capture();
            tracing::warn!("elsewhere");
            log.text()
        });
        assert!(other.join().unwrap().contains("elsewhere"));
        let text = log.text();
        assert!(
            text.contains("WARN") && text.contains("said place=\"here\""),
            "{text}"
        );
        assert!(!text.contains("elsewhere"), "{text}");
    }

    #[test]
    fn a_dropped_log_keeps_nothing() {
        drop(capture());
        tracing::warn!("unheard");
        assert_eq!(capture().text(), "");
    }
}
