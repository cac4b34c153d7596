//! Handle: the captured log of one test, and the last reconciles of its controllers.

use std::cell::RefCell;
use std::io;
use std::sync::{Arc, Once};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::reconciles::{LogFields, Reconcile, Reconciles, SPAN};

thread_local! {
    static LOG: RefCell<Option<Buffer>> = const { RefCell::new(None) };
}

type Buffer = Arc<Captured>;

#[derive(Debug)]
struct Captured {
    lines: Mutex<Vec<u8>>,
    reconciles: Mutex<Reconciles>,
    began: Instant,
}

/// The log of the thread that created it, until it is dropped.
///
/// Every test has its own thread, where a current-thread runtime keeps its tasks, so concurrent tests do not see each
/// other's lines. (One subscriber per test fails: tracing caches per process whether a call site is enabled.)
///
/// While it exists, the reports of [`TestEnv::expect`](crate::TestEnv::expect) include the last reconciles of the
/// controllers on this thread. If the test panics, the log is printed to standard error, where the test harness shows
/// it with the failure.
#[derive(Debug)]
#[must_use = "the log is captured until this is dropped"]
pub struct CapturedLog {
    captured: Buffer,
}

/// Starts to capture the lines that this thread logs at `INFO` and above.
///
/// The first call in a process installs a global subscriber. If there is another one, no lines are
/// captured, and reconciles are only captured if [`Reconciling`] is one of its layers.
pub fn capture() -> CapturedLog {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(ThreadLog)
            .with_ansi(false);
        let subscriber = Registry::default()
            .with(EnvFilter::new("info"))
            .with(lines)
            .with(Reconciling);
        // Fails if the process has a subscriber, as documented.
        let _ = tracing::subscriber::set_global_default(subscriber);
    });
    let captured = Arc::new(Captured {
        lines: Mutex::default(),
        reconciles: Mutex::default(),
        began: Instant::now(),
    });
    LOG.set(Some(Arc::clone(&captured)));
    CapturedLog { captured }
}

impl CapturedLog {
    /// Returns the lines logged so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.captured.lines.lock()).into_owned()
    }

    /// Returns the last reconciles of the controllers on this thread, one line per object; empty if no reconcile ended.
    pub fn reconciles(&self) -> String {
        self.captured.reconciles.lock().to_string()
    }
}

impl Drop for CapturedLog {
    #[expect(
        clippy::print_stderr,
        reason = "the test harness shows what a failed test printed"
    )]
    fn drop(&mut self) {
        LOG.set(None);
        if std::thread::panicking() {
            let (text, reconciles) = (self.text(), self.reconciles());
            eprintln!("captured log ({} lines):\n{text}", text.lines().count());
            if !reconciles.is_empty() {
                eprintln!("reconciles:\n{reconciles}");
            }
        }
    }
}

/// Returns the last reconciles of the controllers on this thread, if their log is captured.
pub(crate) fn reconciles() -> Option<String> {
    let mut found = None;
    with_log(|captured| found = Some(captured.reconciles.lock().to_string()));
    found
}

/// Calls `act` with the log of this thread. An ending thread no longer has a log.
fn with_log(act: impl FnOnce(&Captured)) {
    let _ = LOG.try_with(|log| {
        if let Some(captured) = &*log.borrow() {
            act(captured);
        }
    });
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
        with_log(|captured| captured.lines.lock().extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A layer that records the results of reconciles, for tests with their own subscriber:
/// `tracing_subscriber::registry().with(…).with(Reconciling)`. [`capture`] includes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reconciling;

struct SpanReconcile {
    controller: String,
    object: String,
    began: Instant,
    problem: Option<String>,
}

impl<S> Layer<S> for Reconciling
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().name() != SPAN {
            return;
        }
        let Some(span) = context.span(id) else {
            return;
        };
        let mut fields = LogFields::default();
        attributes.record(&mut fields);
        span.extensions_mut().insert(SpanReconcile {
            controller: fields.controller,
            object: fields.object,
            began: Instant::now(),
            problem: None,
        });
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if *event.metadata().level() != Level::ERROR {
            return;
        }
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(running) = span.extensions_mut().get_mut::<SpanReconcile>() {
                let mut fields = LogFields::default();
                event.record(&mut fields);
                running.problem = Some(fields.problem());
                return;
            }
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else {
            return;
        };
        let Some(running) = span.extensions_mut().remove::<SpanReconcile>() else {
            return;
        };
        with_log(|captured| {
            captured.reconciles.lock().add(Reconcile {
                controller: running.controller,
                object: running.object,
                problem: running.problem,
                at: captured.began.elapsed(),
                took: running.began.elapsed(),
            });
        });
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

    /// Returns the output of a test in its own process, which panics on demand.
    fn printed(by: &str, panics: bool) -> String {
        let own = std::env::current_exe().unwrap();
        let output = std::process::Command::new(own)
            .args(["--exact", by, "--nocapture"])
            .env(PANICS, if panics { "1" } else { "0" })
            .output()
            .unwrap();
        assert_eq!(output.status.success(), !panics);
        String::from_utf8(output.stderr).unwrap()
    }

    /// Set to 1 in the process if the test is to panic.
    const PANICS: &str = "STEERSMAN_LOG_TEST_PANICS";

    #[test]
    fn a_panic_prints_the_log_of_its_test() {
        if let Ok(value) = std::env::var(PANICS) {
            let _log = capture();
            tracing::warn!(place = "here", "said before the end");
            assert_ne!(value, "1", "on purpose");
            return;
        }
        let name = "log::tests::a_panic_prints_the_log_of_its_test";
        let failed = printed(name, true);
        assert!(failed.contains("captured log (1 lines)"), "{failed}");
        assert!(
            failed.contains("said before the end place=\"here\""),
            "{failed}"
        );
        let passed = printed(name, false);
        assert!(!passed.contains("said before the end"), "{passed}");
    }

    #[test]
    fn a_dropped_log_keeps_nothing() {
        drop(capture());
        tracing::warn!("unheard");
        assert_eq!(capture().text(), "");
    }

    #[tokio::test(start_paused = true)]
    async fn reconciles_are_recorded_with_their_result() {
        let log = capture();
        let span =
            tracing::error_span!("reconcile", controller = "website", request = ?"default/a");
        span.in_scope(|| {
            let inner = tracing::info_span!("within");
            inner.in_scope(|| tracing::error!(error = %"no such page", "reconcile failed"));
        });
        drop(span);
        tracing::error_span!(
            "reconcile",
            controller = "website",
            namespace = "default",
            name = "b"
        );
        let text = log.reconciles();
        assert!(
            text.starts_with("  website: 2 reconciles, 1 of them failed\n"),
            "{text}"
        );
        assert!(
            text.contains(": reconcile failed: no such page\n"),
            "{text}"
        );
        assert!(
            text.contains("default/b: last ended at 0.000ns after 0.000ns, ok\n"),
            "{text}"
        );
    }
}
