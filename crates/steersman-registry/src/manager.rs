//! Machine: the manager that a request names.

use steersman_text::go;
use steersman_text::status::FieldError;

use super::options::WriteOptions;

/// The longest name of a manager, in bytes.
const LONGEST_NAME: usize = 128;

/// The name of a manager that gave none.
const UNKNOWN: &str = "unknown";

/// Checks the `fieldManager` of a request.
pub(super) fn check(name: Option<&str>, errors: &mut Vec<FieldError>) {
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

/// The name of a request's manager: the one it gives, or what its User-Agent begins with.
pub(super) fn name_of(options: &WriteOptions) -> String {
    let given = options.field_manager.as_deref().unwrap_or_default();
    if !given.is_empty() {
        return given.to_owned();
    }
    let agent = options.user_agent.as_deref().unwrap_or_default();
    let product = agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for c in product.chars().filter(|c| !c.is_control()) {
        if name.len() + c.len_utf8() > LONGEST_NAME {
            break;
        }
        name.push(c);
    }
    if name.is_empty() {
        return UNKNOWN.to_owned();
    }
    name
}
