//! Machine: reads and adds headers.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// Returns the value of a header; `None` if the header is absent or its value is not ASCII text.
pub(crate) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Returns the values of all headers with this name, joined by commas. Leaves out values that are not ASCII text.
pub(crate) fn joined(headers: &HeaderMap, name: HeaderName) -> String {
    let values = headers.get_all(name).into_iter();
    let texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
    texts.join(",")
}

/// Adds a header. Leaves it out if the value has bytes that a header cannot have, such as a line break.
pub(crate) fn append(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
        headers.append(name, value);
    }
}
