//! Driver: prints lines, as they are or with the time since the start.

use std::fmt::Display;
use std::io::Write as _;

use tokio::time::Instant;

/// Standard output, with the time since the start before each line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    start: Instant,
}

pub(crate) fn say(line: impl Display) {
    // If the pipe is closed, no program reads the line.
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn complain(line: impl Display) {
    // There is no other place for the line.
    let _ = writeln!(std::io::stderr(), "{line}");
}

impl Screen {
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    pub(crate) fn say(&self, line: impl Display) {
        let seconds = self.start.elapsed().as_secs_f64();
        say(format_args!("{seconds:7.2}s  {line}"));
    }
}
