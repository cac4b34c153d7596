//! Driver: prints lines with the time since the start.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Instant;

/// Standard output, with the time since the start before each line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    start: Instant,
}

impl Screen {
    /// Starts the clock.
    pub(crate) fn start() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Prints a line.
    pub(crate) fn say(&self, line: impl Display) {
        let seconds = self.start.elapsed().as_secs_f64();
        // Who closed the pipe reads no more lines.
        let _ = writeln!(std::io::stdout(), "{seconds:7.2}s  {line}");
    }
}
