//! Machine: parses keys and values into settings, with the parsers of the flags.

use clap::error::{ContextKind, ContextValue, Error as ClapError};
use clap::{Args as _, Command, FromArgMatches as _};

use crate::error::{Error, SettingSource};
use crate::flags::SettingFlags;
use crate::settings::{SETTINGS, Setting};

/// A key and its value as text, from an environment variable or a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Given {
    pub(crate) place: SettingSource,
    pub(crate) key: &'static str,
    pub(crate) value: String,
}

/// Returns the settings of one source. Variables and keys of a file are parsed like the flag of the same setting.
pub(crate) fn layer(given: &[Given]) -> Result<SettingFlags, Error> {
    // CONF-2: all values are checked, even if another source decides.
    let mut flags = SettingFlags::default();
    for given in given {
        let one = parse(given.key, &given.value).map_err(|error| Error::Value {
            place: given.place.clone(),
            key: given.key.to_owned(),
            value: given.value.clone(),
            problem: problem(&error),
        })?;
        flags = flags.or(one);
    }
    Ok(flags)
}

/// Returns the default values of all settings.
///
/// # Errors
///
/// None in practice: a test parses every default.
pub(crate) fn defaults() -> Result<SettingFlags, Error> {
    let given = SETTINGS
        .iter()
        .filter_map(|setting| Some(of_default(setting, setting.default?)));
    layer(&given.collect::<Vec<_>>())
}

/// Returns the defaults that a program overrides.
pub(crate) fn of_program(defaults: &[(&str, &str)]) -> Result<Vec<Given>, Error> {
    let given = defaults.iter().map(|(key, value)| {
        let setting = SETTINGS.iter().find(|setting| setting.key == *key);
        let setting = setting.ok_or_else(|| Error::UnknownKey {
            place: SettingSource::Default,
            key: (*key).to_owned(),
            similar: None,
            known: SETTINGS.iter().map(|known| known.key.to_owned()).collect(),
        })?;
        Ok(of_default(setting, value))
    });
    given.collect()
}

fn of_default(setting: &Setting, value: &str) -> Given {
    Given {
        place: SettingSource::Default,
        key: setting.key,
        value: value.to_owned(),
    }
}

/// Returns the values of all environment variables for settings.
pub(crate) fn of_environment(
    variable: impl Fn(&str) -> Option<std::ffi::OsString>,
) -> Result<Vec<Given>, Error> {
    let mut given = Vec::new();
    for setting in SETTINGS {
        // `ClientConfig` reads KUBECONFIG itself, because the variable may name several files.
        if setting.key == "kubeconfig" {
            continue;
        }
        for name in setting.variables() {
            let Some(value) = variable(&name).filter(|value| !value.is_empty()) else {
                continue;
            };
            let Ok(value) = value.into_string() else {
                return Err(Error::NotUtf8 { variable: name });
            };
            given.push(Given {
                place: SettingSource::Variable(name),
                key: setting.key,
                value,
            });
            break;
        }
    }
    Ok(given)
}

fn parse(key: &str, value: &str) -> Result<SettingFlags, ClapError> {
    let command = SettingFlags::augment_args(Command::new("configuration"));
    let words = ["configuration".to_owned(), format!("--{key}={value}")];
    SettingFlags::from_arg_matches(&command.try_get_matches_from(words)?)
}

/// Returns the allowed values, as the error of a flag's parser states them.
fn problem(error: &ClapError) -> String {
    if let Some(ContextValue::Strings(allowed)) = error.get(ContextKind::ValidValue) {
        return format!("the allowed values are {}", allowed.join(", "));
    }
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => "the value is not allowed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(key: &'static str, value: &str) -> Given {
        Given {
            place: SettingSource::Variable("STEERSMAN_X".to_owned()),
            key,
            value: value.to_owned(),
        }
    }

    #[test]
    fn every_default_parses_and_every_setting_is_a_flag() {
        let defaults = defaults().unwrap();
        assert_eq!(defaults.log_level.as_deref(), Some("info"));
        assert_eq!(defaults.preflight, Some(false));
        let command = SettingFlags::augment_args(Command::new("configuration"));
        let flags: Vec<&str> = command
            .get_arguments()
            .filter_map(clap::Arg::get_long)
            .collect();
        let keys: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
        assert_eq!(flags, keys);
    }

    #[test]
    fn a_refused_value_names_its_source_and_the_allowed_values() {
        for (key, value, problem) in [
            ("log-format", "xml", "the allowed values are human, json"),
            ("preflight", "maybe", "the allowed values are true, t, 1"),
            ("max-concurrent-reconciles", "0", "at least 1"),
            ("max-total-reconciles", "-3", "invalid digit"),
            ("reconcile-timeout", "5", "500ms"),
            ("backoff-base", "0", "greater than zero"),
            ("controller", "website", "NAME.KEY=VALUE"),
            (
                "controller",
                "website.workers=3",
                "max-concurrent-reconciles, reconcile-timeout",
            ),
            ("controller", "website.max-retries=many", "0 is no retry"),
            ("log-level", "steersman=loud", "error, warn, info"),
            ("log-level", "warning", "error, warn, info"),
            ("otlp-sample-ratio", "1.5", "from 0 to 1"),
            ("otlp-sample-ratio", "NaN", "from 0 to 1"),
            ("namespace", "a,B", "lower-case"),
        ] {
            let error = layer(&[given(key, value)]).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
            assert!(
                error.contains("STEERSMAN_X") && error.contains(key),
                "{error}"
            );
        }
    }

    #[test]
    fn of_the_variables_of_a_setting_the_first_that_is_not_empty_counts() {
        let of = |pairs: &[(&str, &str)]| {
            let found = |name: &str| {
                let pair = pairs.iter().find(|(known, _)| *known == name);
                pair.map(|(_, value)| (*value).into())
            };
            layer(&of_environment(found).unwrap()).unwrap().log_level
        };
        assert_eq!(of(&[("RUST_LOG", "debug")]).as_deref(), Some("debug"));
        let both = [("STEERSMAN_LOG_LEVEL", "warn"), ("RUST_LOG", "debug")];
        assert_eq!(of(&both).as_deref(), Some("warn"));
        let empty = [("STEERSMAN_LOG_LEVEL", ""), ("RUST_LOG", "debug")];
        assert_eq!(of(&empty).as_deref(), Some("debug"));
        assert_eq!(of(&[]), None);
    }
}
