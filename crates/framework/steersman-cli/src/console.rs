//! Handle: prints messages of a program for its user, in the format of the log.

use std::fmt::Display;
use std::io::{self, Write as _};

use crate::flags::LogFormat;
use crate::json_log::text_line;

/// Standard output for messages to the user of a program, such as the address of a started server.
///
/// Messages are printed at every log level. With `--log-format=json`, each message is a line of the log with the level
/// `info` and the program as its `logger`. Output that the user asked for, such as a manifest, does not belong here.
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
    /// Makes a console with this format.
    #[must_use]
    pub fn new(format: LogFormat) -> Self {
        Self { format }
    }

    /// Prints a message and a line feed. A closed standard output is ignored.
    pub fn say(&self, text: impl Display) {
        // A single write keeps the lines of several threads apart.
        let _ = io::stdout().write_all(self.line(&text.to_string()).as_bytes());
    }

    /// LOG-3: returns the line for a message, with a line feed.
    fn line(self, text: &str) -> String {
        match self.format {
            LogFormat::Human => format!("{text}\n"),
            // Indentation is only for people, and is removed.
            LogFormat::Json => text_line(text.trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-3: with JSON, each message is one line in the format of the log.
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
