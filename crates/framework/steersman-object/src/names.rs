//! Machine: checks names by the rules of Kubernetes.

/// Returns whether a text is a DNS subdomain, as the names of most objects are (`NameIsDNSSubdomain`).
#[must_use]
pub fn is_subdomain(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let ends = bytes.first().zip(bytes.last());
        ends.is_some_and(|(first, last)| is_inner(*first) && is_inner(*last))
            && bytes.iter().all(|byte| is_inner(*byte) || *byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

/// Returns whether a text is a qualified name, as the keys of labels are (`IsQualifiedName`).
#[must_use]
pub fn is_qualified(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Returns whether a text can be the value of a label (`IsValidLabelValue`).
#[must_use]
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = bytes.first().into_iter().chain(bytes.last());
    let is_inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    text.len() <= 63
        && bytes.iter().all(is_inner)
        && ends.into_iter().all(u8::is_ascii_alphanumeric)
}
