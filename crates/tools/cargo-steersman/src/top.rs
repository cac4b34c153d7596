//! Driver: `cargo steersman top`.

mod screen_lines;
mod source;

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use tokio::time::sleep;

use crate::command_line::TopArgs;
use crate::error::Error;
use crate::screen::say;

use self::screen_lines::screen_lines;
use self::source::PageSource;

/// The pause between two reads of the debug page.
const PAUSE: Duration = Duration::from_secs(1);

/// Moves the cursor to the start of the screen, and clears it from there.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// Shows what a running operator works on and waits for, until it is interrupted.
pub(crate) async fn top(args: &TopArgs) -> Result<(), Error> {
    let source = PageSource::find(args).await?;
    let is_screen = stdout().is_terminal() && !args.once;
    loop {
        let overview = source.overview().await?;
        let lines = screen_lines(&overview).join("\n");
        match is_screen {
            true => say(format_args!("{CLEAR}{lines}")),
            false => say(lines),
        }
        if !is_screen {
            return Ok(());
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            // An error means that the signal cannot be listened to; then it ends the process.
            _ = tokio::signal::ctrl_c() => return Ok(()),
        }
    }
}
