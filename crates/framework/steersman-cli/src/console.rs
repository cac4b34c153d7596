//! Handle: prints the texts of a program for its user, in the form of its log.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::flags::LogFormat;
use crate::json_log::text_line;

/// The standard output of a program for texts to its user, such as the address of a server that it started.
///
/// A text is printed whatever the level of the log is. With `--log-format=json` each text is one line like those of the
/// log, with the level `info` and the name of the program as its `logger`, so that both outputs of the process hold
/// lines of one form. Output that the user asked for, such as a manifest, is written to standard output directly.
///
/// Made by [`Config::console`](crate::Config::console).
///
/// ```
/// use clap::Parser as _;
///
/// let args = steersman_cli::Args::parse_from(["program"]);
/// let console = args.config()?.console();
/// console.say(format_args!("listening at {}", "http://127.0.0.1:8080"));
/// # Ok::<_, steersman_cli::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Console {
    format: LogFormat,
}

impl Console {
    /// Makes a console of this form.
    #[must_use]
    pub fn new(format: LogFormat) -> Self {
        Self { format }
    }

    /// Prints a text and a line feed. A closed standard output is no error.
    pub fn say(&self, text: impl Display) {
        // In one piece, so that lines of several threads do not mix.
        let _ = io::stdout().write_all(self.line(&text.to_string()).as_bytes());
    }

    /// LOG-3: returns the line of a text, with a line feed.
    fn line(self, text: &str) -> String {
        match self.format {
            LogFormat::Human => format!("{text}\n"),
            // The indentation is for people.
            LogFormat::Json => text_line(text.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-3.
    #[test]
    fn a_text_is_one_line_of_the_form_of_the_log() {
        let text = "  a \"b\"\nc";
        assert_eq!(
            Console::new(LogFormat::Human).line(text),
            format!("{text}\n")
        );
        let line = Console::new(LogFormat::Json).line(text);
        let [line] = &steersman_testenv::json_lines(&line).unwrap()[..] else {
            panic!("it is one line: {line:?}");
        };
        assert_eq!(line["level"], "info");
        assert_eq!(line["msg"], "a \"b\"\nc");
    }
}
