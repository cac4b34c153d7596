//! Words: flags of kubebuilder's `main.go` with another name or notation than here, or without an effect.

use crate::flags::{LogFormat, SettingFlags, parse_level};
use crate::named_value::parse_bool;

/// Flags of kubebuilder that an existing Deployment may pass. `--help` hides them.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct KubebuilderFlags {
    /// The log level in the form of zap
    #[arg(long, hide = true, value_name = "LEVEL", value_parser = parse_zap_level)]
    pub(crate) zap_log_level: Option<String>,
    /// Log at the level debug, as text
    #[arg(long, hide = true, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub(crate) zap_devel: Option<bool>,
    /// No effect
    #[arg(long, hide = true, value_name = "LEVEL")]
    pub(crate) zap_stacktrace_level: Option<String>,
    /// No effect
    #[arg(long, hide = true, value_name = "ENCODING")]
    pub(crate) zap_time_encoding: Option<String>,
}

impl KubebuilderFlags {
    /// Sets the log level and format in `flags` from these flags, unless `flags` has its own.
    pub(crate) fn apply(&self, mut flags: SettingFlags) -> SettingFlags {
        let is_devel = self.zap_devel == Some(true);
        let devel = is_devel.then(|| "debug".to_owned());
        flags.log_level = flags.log_level.or(self.zap_log_level.clone()).or(devel);
        flags.log_format = flags.log_format.or(is_devel.then_some(LogFormat::Human));
        flags
    }

    /// Returns the given flags that have no effect, each with the reason.
    pub(crate) fn without_effect(&self) -> Vec<&'static str> {
        let is_set = |value: &Option<String>| value.as_deref().is_some_and(|text| !text.is_empty());
        let mut given = Vec::new();
        if is_set(&self.zap_stacktrace_level) {
            given.push("--zap-stacktrace-level (only panics have stack traces, with RUST_BACKTRACE=1; --log-level=debug logs more)");
        }
        if is_set(&self.zap_time_encoding) {
            given.push("--zap-time-encoding (log lines have the time in RFC 3339, with --log-format human and json)");
        }
        given
    }
}

/// Parses a level of zap: `debug`, `info`, `error`, `panic`, a verbosity from 1, or a value of `--log-level`.
fn parse_zap_level(text: &str) -> Result<String, String> {
    let level = text.trim().to_ascii_lowercase();
    match (level.as_str(), level.parse::<u32>()) {
        ("panic", _) => Ok("error".to_owned()),
        (_, Ok(0)) => {
            Err("the verbosity is at least 1: 1 is debug, 2 and more are trace".to_owned())
        }
        (_, Ok(1)) => Ok("debug".to_owned()),
        (_, Ok(_)) => Ok("trace".to_owned()),
        (_, Err(_)) => parse_level(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_of_zap_have_a_level_here() {
        for (zap, level) in [
            ("debug", "debug"),
            ("info", "info"),
            ("error", "error"),
            ("panic", "error"),
            ("1", "debug"),
            ("2", "trace"),
            ("10", "trace"),
            ("warn", "warn"),
        ] {
            assert_eq!(parse_zap_level(zap).as_deref(), Ok(level), "{zap}");
        }
        for zap in ["0", "-1", "fatal", ""] {
            assert!(parse_zap_level(zap).is_err(), "{zap}");
        }
    }
}
