//! Driver: asks for confirmation before a cluster is changed.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use crate::error::Error;
use crate::screen::say;

/// Prints the cluster that is about to change, and asks on the terminal for confirmation unless `is_given` is set,
/// which is the flag `--yes`.
pub(crate) fn confirm(cluster: &str, is_given: bool) -> Result<(), Error> {
    say(format_args!(
        "the operator will run with {cluster}: it installs its definitions there, and writes with your permissions"
    ));
    if is_given {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::NeedsYes(cluster.to_owned()));
    }
    let mut out = std::io::stdout();
    // A failed write of the question counts as the answer no.
    let asked = out
        .write_all(b"continue? [y/N] ")
        .and_then(|()| out.flush());
    let mut answer = String::new();
    let read = asked.and_then(|()| std::io::stdin().lock().read_line(&mut answer));
    match read.is_ok() && is_yes(&answer) {
        true => Ok(()),
        false => Err(Error::NotConfirmed(cluster.to_owned())),
    }
}

fn is_yes(answer: &str) -> bool {
    matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_yes_is_one() {
        for (answer, expected) in [
            ("y\n", true),
            (" Yes \r\n", true),
            ("", false),
            ("\n", false),
            ("yep\n", false),
            ("n\n", false),
        ] {
            assert_eq!(is_yes(answer), expected, "{answer:?}");
        }
    }
}
