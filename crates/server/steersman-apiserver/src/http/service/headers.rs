//! Machine: headers as text.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// Returns a header as text; `None` if it is absent or no text.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Joins all headers of a name by commas, leaving out those that are no text.
pub(super) fn joined(headers: &HeaderMap, name: HeaderName) -> String {
    let values = headers.get_all(name).into_iter();
    let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    texts.join(",")
}

/// Adds a header, unless its value is invalid in a header.
pub(super) fn append(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.append(name, value);
    }
}
