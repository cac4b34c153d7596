//! Machine: finds the field manager of a request.

use steersman_apimachinery::go;
use steersman_apimachinery::status::FieldError;

use super::options::WriteOptions;

/// Maximum length of a field manager's name, in bytes.
const LONGEST_NAME: usize = 128;

/// The field manager of a request with neither a `fieldManager` nor a User-Agent.
const UNKNOWN: &str = "unknown";

pub(crate) fn check(name: Option<&str>, errors: &mut Vec<FieldError>) {
    let name = name.unwrap_or_default();
    if name.len() > LONGEST_NAME {
        let detail = format!("may not be more than {LONGEST_NAME} bytes");
        errors.push(FieldError::too_long("fieldManager", &detail));
    }
    for (at, c) in name.char_indices() {
        if c.is_control() || c == char::REPLACEMENT_CHARACTER {
            let value = go::quote(name);
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                u32::from(c)
            );
            errors.push(FieldError::invalid("fieldManager", &value, &detail));
        }
    }
}

/// Returns the name of the field manager of a write: its `fieldManager`, or else its User-Agent up to the first slash.
pub(crate) fn name_of(options: &WriteOptions) -> String {
    let given = options.field_manager.as_deref().unwrap_or_default();
    if !given.is_empty() {
        return given.to_owned();
    }
    let agent = options.user_agent.as_deref().unwrap_or_default();
    let product = agent.split('/').next().unwrap_or_default();
    let mut name: String = product.chars().filter(|c| !c.is_control()).collect();
    name.truncate(name.floor_char_boundary(LONGEST_NAME));
    if name.is_empty() {
        return UNKNOWN.to_owned();
    }
    name
}
