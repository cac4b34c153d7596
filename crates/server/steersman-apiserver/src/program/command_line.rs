//! Machine: the command lines of kube-apiserver and etcd, parsed by a table of flags.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use steersman_apimachinery::go;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlagEffect {
    Obeyed,
    /// The flag changes nothing, and a warning says so.
    Ignored,
    /// The program does not start with the flag.
    Refused,
    /// The flag is accepted only with one of these values, which `|` separates.
    Only(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FlagRow {
    pub(crate) name: &'static str,
    /// Whether the flag is boolean: `--name` without a value means `--name=true`.
    pub(crate) is_switch: bool,
    pub(crate) effect: FlagEffect,
    /// What an obeyed flag does, or why the flag is ignored or refused; `--help` shows the text.
    pub(crate) note: &'static str,
}

/// All flags of a program, in alphabetical order.
#[derive(Debug)]
pub(crate) struct FlagTable {
    rows: Vec<FlagRow>,
}

#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    given: Vec<(&'static str, String)>,
    /// A warning for each flag that was given and is ignored, with the reason.
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FlagProblem {
    #[error("unknown flag {flag}; --help lists the flags")]
    Unknown { flag: String },
    #[error("{argument:?} is no flag; --help lists the flags")]
    Positional { argument: String },
    #[error("--{flag} needs a value")]
    NoValue { flag: &'static str },
    #[error("--{flag} is either true or false, not {value:?}")]
    NotBoolean { flag: &'static str, value: String },
    #[error("--{flag} is refused: {why}")]
    Refused {
        flag: &'static str,
        why: &'static str,
    },
    #[error("--{flag}={value} is refused: {why}; leave it out, or use --{flag}={only}")]
    Only {
        flag: &'static str,
        value: String,
        only: &'static str,
        why: &'static str,
    },
    #[error("--{flag} needs --{other}")]
    Alone {
        flag: &'static str,
        other: &'static str,
    },
    #[error("the environment variable {name}={value} is refused: {why}")]
    Variable {
        name: &'static str,
        value: String,
        why: &'static str,
    },
    #[error("--{flag}={value} is refused: {why}")]
    Invalid {
        flag: &'static str,
        value: String,
        why: String,
    },
}

impl FlagProblem {
    pub(crate) fn invalid(flag: &'static str, value: &str, why: &str) -> Self {
        Self::Invalid {
            flag,
            value: value.to_owned(),
            why: why.to_owned(),
        }
    }
}

// === impl FlagTable ===

impl FlagTable {
    /// Reads a table: one flag per line, with name, type, effect and note; `#` begins comments.
    pub(crate) fn read(text: &'static str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.filter_map(row).collect();
        Self { rows }
    }

    #[cfg(test)]
    pub(crate) fn rows(&self) -> &[FlagRow] {
        &self.rows
    }

    fn find(&self, name: &str) -> Option<&FlagRow> {
        // As upstream, underscores in the names of flags count as dashes.
        let name = name.replace('_', "-");
        self.rows.iter().find(|row| row.name == name)
    }

    pub(crate) fn help(&self, introduction: &str) -> String {
        let mut text = format!("{introduction}\n\nFlags:\n");
        for row in &self.rows {
            let value = if row.is_switch { "" } else { " VALUE" };
            let effect = row.effect.describe();
            // Writing to a string cannot fail.
            let _ = writeln!(text, "      --{}{value}  {effect}: {}", row.name, row.note);
        }
        text
    }

    /// Parses arguments: `--name=value`, `--name value`, `-name value`, and `--name` alone for a
    /// switch. Parsing ends at `--help` and `--version`.
    pub(crate) fn parse(
        &self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<CommandLine, FlagProblem> {
        let mut arguments = arguments.into_iter();
        let mut line = CommandLine::default();
        while let Some(argument) = arguments.next() {
            let argument = argument.to_string_lossy().into_owned();
            let Some(flag) = argument.strip_prefix('-') else {
                return Err(FlagProblem::Positional { argument });
            };
            let flag = flag.strip_prefix('-').unwrap_or(flag);
            let (name, joined) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let name = if name == "h" { "help" } else { name };
            let (row, joined) = match (self.find(name), short(flag)) {
                (Some(row), _) => (row, joined),
                (None, Some((name, value))) => {
                    let row = self.find(name).ok_or_else(|| unknown(&argument))?;
                    (row, Some(value.to_owned()))
                }
                (None, None) => return Err(unknown(&argument)),
            };
            let value = match joined {
                Some(value) => value,
                None if row.is_switch => "true".to_owned(),
                None => {
                    let value = arguments.next();
                    let value = value.ok_or(FlagProblem::NoValue { flag: row.name })?;
                    value.to_string_lossy().into_owned()
                }
            };
            line.add(row, value)?;
            if line.asks("help") || line.asks("version") {
                break;
            }
        }
        Ok(line)
    }
}

impl FlagEffect {
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Obeyed => "obeyed".to_owned(),
            Self::Ignored => "ignored".to_owned(),
            Self::Refused => "refused".to_owned(),
            Self::Only(values) => format!("only {}", values.replace('|', " or ")),
        }
    }
}

fn row(line: &'static str) -> Option<FlagRow> {
    let mut parts = line.splitn(4, ' ');
    let (name, kind, effect, note) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let effect = match (effect, effect.split_once('=')) {
        ("obeyed", _) => FlagEffect::Obeyed,
        ("ignored", _) => FlagEffect::Ignored,
        ("refused", _) => FlagEffect::Refused,
        (_, Some(("only", values))) => FlagEffect::Only(values),
        _ => return None,
    };
    let is_switch = match kind {
        "switch" => true,
        "text" => false,
        _ => return None,
    };
    Some(FlagRow {
        name,
        is_switch,
        effect,
        note,
    })
}

/// Splits a short flag (a letter) from the digits of its value, such as `v4`; `None` for other flags.
fn short(flag: &str) -> Option<(&str, &str)> {
    let (name, value) = flag.split_at_checked(1)?;
    (!value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit())).then_some((name, value))
}

fn unknown(argument: &str) -> FlagProblem {
    let flag = argument.split('=').next().unwrap_or(argument).to_owned();
    FlagProblem::Unknown { flag }
}

fn entries_of(value: &str) -> impl Iterator<Item = &str> {
    let entries = value.split(',').map(str::trim);
    entries.filter(|entry| !entry.is_empty())
}

// === impl CommandLine ===

impl CommandLine {
    fn add(&mut self, row: &FlagRow, value: String) -> Result<(), FlagProblem> {
        let flag = row.name;
        let value = match (row.is_switch, go::parse_bool(&value)) {
            (false, _) => value,
            (true, Some(is_on)) => is_on.to_string(),
            (true, None) => return Err(FlagProblem::NotBoolean { flag, value }),
        };
        match row.effect {
            FlagEffect::Obeyed => {}
            FlagEffect::Ignored => {
                let warning = format!("--{flag} is ignored: {}", row.note);
                if !self.warnings.contains(&warning) {
                    self.warnings.push(warning);
                }
            }
            FlagEffect::Refused => {
                let why = row.note;
                return Err(FlagProblem::Refused { flag, why });
            }
            FlagEffect::Only(only) if only.split('|').any(|one| one == value) => {}
            FlagEffect::Only(values) => {
                return Err(FlagProblem::Only {
                    flag,
                    value,
                    only: values.split('|').next().unwrap_or(values),
                    why: row.note,
                });
            }
        }
        self.given.push((flag, value));
        Ok(())
    }

    pub(crate) fn all<'a>(&'a self, flag: &str) -> impl Iterator<Item = &'a str> {
        let given = self.given.iter().filter(move |(name, _)| *name == flag);
        given.map(|(_, value)| value.as_str())
    }

    /// Returns the last value of a flag, which overrides earlier values of the flag.
    pub(crate) fn last(&self, flag: &str) -> Option<&str> {
        self.all(flag).last()
    }

    /// Returns the last value of a flag, unless it is empty.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        self.last(flag).filter(|value| !value.is_empty())
    }

    pub(crate) fn path(&self, flag: &str) -> Option<PathBuf> {
        self.text(flag).map(PathBuf::from)
    }

    /// Returns the entries, separated by commas, of all values that were given for a flag.
    pub(crate) fn entries<'a>(&'a self, flag: &str) -> impl Iterator<Item = &'a str> {
        self.all(flag).flat_map(entries_of)
    }

    /// Returns the entries, separated by commas, of the last value of a flag; the last value overrides earlier ones.
    pub(crate) fn last_entries(&self, flag: &str) -> impl Iterator<Item = &str> {
        entries_of(self.last(flag).unwrap_or_default())
    }

    pub(crate) fn asks(&self, flag: &str) -> bool {
        self.last(flag) == Some("true")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A comment.\n\
        data-dir text obeyed A folder.\n\
        fsync switch obeyed Waits.\n\
        help switch obeyed Prints the flags.\n\
        mode text only=a|b there is no other\n\
        prefix text refused there is none\n\
        v text ignored it is fixed\n";

    fn parse(arguments: &[&str]) -> Result<CommandLine, FlagProblem> {
        FlagTable::read(TABLE).parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn values_follow_an_equals_sign_or_a_space_after_one_or_two_dashes() {
        for arguments in [
            &["--data-dir=x"][..],
            &["--data-dir", "x"],
            &["-data-dir", "x"],
            &["--data_dir=x"],
            &["--data-dir=y", "--data-dir=x"],
        ] {
            let line = parse(arguments).unwrap();
            assert_eq!(line.last("data-dir"), Some("x"), "{arguments:?}");
        }
        let line = parse(&["--fsync", "--data-dir", "a,b", "-data-dir=c"]).unwrap();
        assert!(line.asks("fsync"));
        assert_eq!(line.all("data-dir").collect::<Vec<_>>(), ["a,b", "c"]);
        assert_eq!(
            line.entries("data-dir").collect::<Vec<_>>(),
            ["a", "b", "c"]
        );
        assert!(!parse(&["--fsync=false"]).unwrap().asks("fsync"));
    }

    #[test]
    fn an_ignored_flag_is_named_once() {
        let line = parse(&["-v4", "--v=2", "-v", "3"]).unwrap();
        assert_eq!(line.warnings, ["--v is ignored: it is fixed"]);
    }

    #[test]
    fn a_problem_names_the_flag_and_the_way_out() {
        for (arguments, text) in [
            (
                &["--colour=red"][..],
                "unknown flag --colour; --help lists the flags",
            ),
            (&["-"], "unknown flag -; --help lists the flags"),
            (&["--é"], "unknown flag --é; --help lists the flags"),
            (&["x"], "\"x\" is no flag; --help lists the flags"),
            (&["--data-dir"], "--data-dir needs a value"),
            (
                &["--fsync=maybe"],
                "--fsync is either true or false, not \"maybe\"",
            ),
            (&["--prefix=x"], "--prefix is refused: there is none"),
            (
                &["--mode=c"],
                "--mode=c is refused: there is no other; leave it out, or use --mode=a",
            ),
        ] {
            assert_eq!(parse(arguments).unwrap_err().to_string(), text);
        }
        assert!(parse(&["--mode=b"]).is_ok());
    }

    #[test]
    fn help_is_found_before_later_mistakes() {
        for help in ["--help", "-h"] {
            assert!(parse(&[help, "--colour"]).unwrap().asks("help"));
        }
    }

    #[test]
    fn each_flag_of_the_help_begins_a_line() {
        let help = FlagTable::read(TABLE).help("Usage");
        let line = help.lines().find(|line| line.contains("data-dir"));
        assert_eq!(line, Some("      --data-dir VALUE  obeyed: A folder."));
    }
}
