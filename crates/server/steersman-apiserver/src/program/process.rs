//! Driver: the signals that stop a program, its messages, and its intervals.

use std::fmt::Display;
use std::io::Write;
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use super::problem::{Outcome, ProgramProblem};

/// Prints a line to `to`. Ignores errors: a closed pipe does not end the program.
pub(crate) fn say(mut to: impl Write, line: &str) {
    let _ = writeln!(to, "{line}");
}

pub(crate) fn report(program: &str, message: impl Display) {
    say(std::io::stderr(), &format!("{program}: {message}"));
}

/// Returns an interval in which a late tick delays all later ticks, so that two ticks are at least `period` apart.
pub(crate) fn every(period: Duration) -> Interval {
    let mut interval = interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// Returns a future that ends with ctrl-c or SIGTERM. Both signals are caught from the return of this function on.
#[cfg(unix)]
pub(crate) fn stopped() -> Outcome<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let listen = |kind| signal(kind).map_err(|source| ProgramProblem::Signals { source });
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}

#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "it can fail on other platforms")]
pub(crate) fn stopped() -> Outcome<impl Future<Output = ()>> {
    Ok(async {
        // If the handler for ctrl-c cannot be installed, the program runs until it is killed.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
