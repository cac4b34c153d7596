//! Driver: prints lines, with or without the time since the start.

use std::fmt::Display;
use std::io::Write as _;

use tokio::time::Instant;

/// Standard output, with the time since the start before each line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    start: Instant,
}

pub(crate) fn say(line: impl Display) {
    // A failed write is ignored: the reader of standard output has closed the pipe.
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn complain(line: impl Display) {
    // A failed write is ignored, because no other output exists.
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
