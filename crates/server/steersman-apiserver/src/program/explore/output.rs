//! Driver: shows the progress of an exploration on standard error.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use steersman_apiserver::explore::engine::CampaignProgress;

/// The time between two lines of progress if standard error is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// The progress of an exploration: one line that is written again on a terminal, else a line from time to time.
pub(crate) struct ExploreProgress {
    is_terminal: bool,
    budget: Option<Duration>,
    next_line: Duration,
}

impl ExploreProgress {
    pub(crate) fn new(budget: Option<Duration>) -> Self {
        Self {
            is_terminal: std::io::stderr().is_terminal(),
            budget,
            next_line: LINE_INTERVAL,
        }
    }

    pub(crate) fn show(&mut self, progress: CampaignProgress, elapsed: Duration) {
        let CampaignProgress {
            worlds,
            planned,
            tried,
            found,
        } = progress;
        let left = match self.budget {
            Some(budget) => format!(", {} s left", budget.saturating_sub(elapsed).as_secs()),
            None => String::new(),
        };
        let line = format!(
            "{tried} of {planned} points tried in {worlds} worlds, {found} found, {} s{left}",
            elapsed.as_secs()
        );
        // A closed pipe does not end the exploration.
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[2K{line}");
            let _ = std::io::stderr().flush();
        } else if elapsed >= self.next_line {
            self.next_line = elapsed + LINE_INTERVAL;
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }

    /// Ends the line of a terminal.
    pub(crate) fn end(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
