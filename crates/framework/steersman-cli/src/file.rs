//! Machine: parses a configuration file into keys and values with their line numbers.

use std::fmt;
use std::path::Path;

use serde::de::{DeserializeOwned, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

use crate::controller_setting::{CONTROLLER_KEYS, NamedSetting, parse_value};
use crate::error::{Error, SettingSource};
use crate::layer::Given;
use crate::settings::{CONTROLLERS_KEY, OPERATOR, SETTINGS};

/// The key of the setting for the format of log lines.
const LOG_FORMAT: &str = "log-format";

/// The content of a file without the program's own settings.
#[derive(Debug, Default)]
pub(crate) struct FileContent {
    pub(crate) given: Vec<Given>,
    pub(crate) controllers: Vec<NamedSetting>,
}

/// A value in the file; scalars are kept as text.
enum FileValue {
    Nothing,
    Text(String),
    List(Vec<Self>),
    Map(FileMap),
}

struct FileMap(Vec<FileEntry>);

/// A key and its value, with their positions in the file.
type FileEntry = (Spanned<String>, Spanned<FileValue>);

/// The part of a file with the program's own settings, of type `T`.
#[derive(Deserialize)]
struct OperatorPart<T> {
    operator: Option<T>,
}

/// Parses the settings of a file, except for the program's own.
pub(crate) fn read_settings(path: &Path, text: &str) -> Result<FileContent, Error> {
    let mut content = FileContent::default();
    if is_empty(text) {
        return Ok(content);
    }
    let FileMap(entries) = serde_saphyr::from_str(text).map_err(|error| of_yaml(path, &error))?;
    for (key, value) in entries {
        let place = place(path, &key);
        if key.value == OPERATOR {
            continue;
        }
        if key.value == CONTROLLERS_KEY {
            content
                .controllers
                .extend(controllers(path, &place, value.value)?);
            continue;
        }
        let known = SETTINGS
            .iter()
            .filter(|setting| is_key_of_file(setting.key));
        let Some(setting) = known.clone().find(|setting| setting.key == key.value) else {
            let own = [CONTROLLERS_KEY, OPERATOR];
            let known: Vec<&str> = known.map(|setting| setting.key).chain(own).collect();
            return Err(unknown(place, &key.value, &known));
        };
        if let Some(value) = text_of(value.value, &place, setting.key)? {
            content.given.push(Given {
                place,
                key: setting.key,
                value,
            });
        }
    }
    Ok(content)
}

/// Returns the format of log lines in a file, even if other keys are invalid.
pub(crate) fn read_log_format(path: &Path, text: &str) -> Option<Given> {
    let FileMap(entries) = serde_saphyr::from_str(text).ok()?;
    let (key, value) = entries
        .into_iter()
        .find(|(key, _)| key.value == LOG_FORMAT)?;
    Some(Given {
        place: place(path, &key),
        key: LOG_FORMAT,
        value: value.value.to_string(),
    })
}

/// Returns whether a setting may be in a file: not the path of the file itself, and not `controller`, because a file
/// has these settings under `controllers`.
pub(crate) fn is_key_of_file(key: &str) -> bool {
    !matches!(key, "config" | "controller")
}

/// Parses the program's own settings, under `operator`; an absent key counts as an empty mapping.
pub(crate) fn read_operator<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, Error> {
    let part = if is_empty(text) { "{}" } else { text };
    let part: OperatorPart<T> =
        serde_saphyr::from_str(part).map_err(|error| of_yaml(path, &error))?;
    match part.operator {
        Some(settings) => Ok(settings),
        None => serde_saphyr::from_str("{}").map_err(|error| Error::File {
            path: path.to_owned(),
            problem: format!("the key {OPERATOR:?} is missing: {}", one_line(&error)),
        }),
    }
}

fn controllers(
    path: &Path,
    at: &SettingSource,
    value: FileValue,
) -> Result<Vec<NamedSetting>, Error> {
    let mut found = Vec::new();
    for (name, settings) in map_of(value, at, CONTROLLERS_KEY)? {
        let at = place(path, &name);
        for (key, value) in map_of(settings.value, &at, &name.value)? {
            let place = place(path, &key);
            if !CONTROLLER_KEYS.contains(&key.value.as_str()) {
                return Err(unknown(place, &key.value, &CONTROLLER_KEYS));
            }
            let full = format!("{CONTROLLERS_KEY}.{}.{}", name.value, key.value);
            let Some(text) = text_of(value.value, &place, &full)? else {
                continue;
            };
            let value = parse_value(&key.value, &text).map_err(|problem| Error::Value {
                place,
                key: full,
                value: text,
                problem,
            })?;
            let controller = name.value.clone();
            found.push(NamedSetting { controller, value });
        }
    }
    Ok(found)
}

fn map_of(value: FileValue, at: &SettingSource, key: &str) -> Result<Vec<FileEntry>, Error> {
    match value {
        FileValue::Nothing => Ok(Vec::new()),
        FileValue::Map(FileMap(entries)) => Ok(entries),
        FileValue::Text(_) | FileValue::List(_) => Err(Error::Value {
            place: at.clone(),
            key: key.to_owned(),
            value: value.to_string(),
            problem: "the value is a mapping".to_owned(),
        }),
    }
}

/// Returns a value in the notation of its flag; `None` if the key has no value.
fn text_of(value: FileValue, at: &SettingSource, key: &str) -> Result<Option<String>, Error> {
    let text = value.to_string();
    let is_scalar = |value: &FileValue| matches!(value, FileValue::Text(_));
    match value {
        FileValue::Nothing => Ok(None),
        FileValue::Text(text) => Ok(Some(text)),
        FileValue::List(items) if items.iter().all(is_scalar) => {
            Ok(Some(text).filter(|text| !text.is_empty()))
        }
        FileValue::List(_) | FileValue::Map(_) => Err(Error::Value {
            place: at.clone(),
            key: key.to_owned(),
            value: text,
            problem: "the value is a text, a number, a boolean, or a list of texts".to_owned(),
        }),
    }
}

fn place(path: &Path, key: &Spanned<String>) -> SettingSource {
    SettingSource::Line {
        path: path.to_owned(),
        line: key.defined.line(),
    }
}

fn unknown(place: SettingSource, key: &str, known: &[&str]) -> Error {
    let near = known.iter().map(|known| (distance(key, known), *known));
    let nearest = near.min().filter(|(distance, _)| *distance <= 3);
    Error::UnknownKey {
        place,
        key: key.to_owned(),
        similar: nearest.map(|(_, known)| known.to_owned()),
        known: known.iter().map(|known| (*known).to_owned()).collect(),
    }
}

/// Returns the edit distance of two texts: the number of inserted, removed and replaced characters.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

/// Returns whether a file has nothing but comments.
fn is_empty(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#') || line == "---")
}

fn of_yaml(path: &Path, error: &serde_saphyr::Error) -> Error {
    Error::File {
        path: path.to_owned(),
        problem: one_line(error),
    }
}

/// Returns the position and the problem of an error, without the quoted lines.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.without_snippet().to_string();
    text.lines()
        .next()
        .unwrap_or_default()
        .trim_start_matches("error: ")
        // The settings type has no fields, so the list of expected keys is empty.
        .replace("expected one of  at", "and there are no settings here, at")
}

impl fmt::Display for FileValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("empty"),
            Self::Text(text) => f.write_str(text),
            Self::List(items) => {
                let items: Vec<String> = items.iter().map(Self::to_string).collect();
                f.write_str(&items.join(","))
            }
            Self::Map(_) => f.write_str("a mapping"),
        }
    }
}

impl<'de> Deserialize<'de> for FileMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match FileValue::deserialize(deserializer)? {
            FileValue::Map(map) => Ok(map),
            FileValue::Nothing => Ok(Self(Vec::new())),
            FileValue::Text(_) | FileValue::List(_) => Err(serde::de::Error::custom(
                "a configuration file is a mapping of keys to values",
            )),
        }
    }
}

impl<'de> Deserialize<'de> for FileValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = FileValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a configuration")
            }

            fn visit_bool<E>(self, value: bool) -> Result<FileValue, E> {
                Ok(FileValue::Text(value.to_string()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<FileValue, E> {
                Ok(FileValue::Text(value.to_string()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<FileValue, E> {
                Ok(FileValue::Text(value.to_string()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<FileValue, E> {
                Ok(FileValue::Text(value.to_string()))
            }

            fn visit_str<E>(self, value: &str) -> Result<FileValue, E> {
                Ok(FileValue::Text(value.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<FileValue, E> {
                Ok(FileValue::Nothing)
            }

            fn visit_none<E>(self) -> Result<FileValue, E> {
                Ok(FileValue::Nothing)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<FileValue, A::Error> {
                let mut found = Vec::new();
                while let Some(item) = items.next_element()? {
                    found.push(item);
                }
                Ok(FileValue::List(found))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<FileValue, A::Error> {
                let mut found = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    found.push(entry);
                }
                Ok(FileValue::Map(FileMap(found)))
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}
