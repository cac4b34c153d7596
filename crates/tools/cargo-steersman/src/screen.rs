//! Driver: prints lines.

use std::fmt::Display;
use std::io::Write as _;

pub(crate) fn say(line: impl Display) {
    // A failed write is ignored: the reader of standard output has closed the pipe.
    let _ = writeln!(std::io::stdout(), "{line}");
}

pub(crate) fn complain(line: impl Display) {
    // A failed write is ignored, because no other output exists.
    let _ = writeln!(std::io::stderr(), "{line}");
}
