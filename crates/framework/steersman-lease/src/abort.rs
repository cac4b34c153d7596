//! Driver: aborts the process, and logs the reason unless the log blocks.

use std::time::Duration;

use tracing::error;

use crate::options::ElectionOptions;
use crate::status::Overrun;

/// How long a blocked log may delay an abort.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// LEASE-4: calls the hook that aborts the process.
pub(crate) fn abort(options: &ElectionOptions) {
    let overrun = Overrun {
        lease: options.key.to_string(),
        limit: options.given.timing.stop_limit(),
    };
    log_overrun(&overrun);
    (options.given.abort)(&overrun);
}

/// Logs the reason of an abort on a separate thread: a blocked log, such as a full pipe, must not delay the abort.
fn log_overrun(overrun: &Overrun) {
    let (lease, limit) = (overrun.lease.clone(), overrun.limit);
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let subscriber = tracing::dispatcher::get_default(Clone::clone);
    let words = std::thread::Builder::new().spawn(move || {
        tracing::dispatcher::with_default(&subscriber, || {
            error!(
                lease,
                ?limit,
                "work still runs after the loss of the lease, and another replica may take the lease soon: the process aborts"
            );
        });
        drop(tell);
    });
    if words.is_ok() {
        // The wait ends when the thread has logged, or at the limit.
        let _ = told.recv_timeout(LAST_WORDS);
    }
}
