//! Machine: Rust names for the properties of a schema.

use std::collections::BTreeSet;

use crate::names::{capitalized, is_keyword, snake};

/// Returns a field name for a property that is not in `taken`, and whether the field needs `#[serde(rename)]`, because
/// its camel case is not the name of the property.
pub(super) fn field_name(property: &str, taken: &BTreeSet<String>) -> (String, bool) {
    let mut name = snake(&identifier(property)).trim_matches('_').to_owned();
    if name.is_empty() {
        name = "field".to_owned();
    }
    if name.starts_with(|letter: char| letter.is_ascii_digit()) {
        name.insert(0, '_');
    }
    if is_keyword(&name) {
        name.push('_');
    }
    let name = unlike(&name, taken);
    let rename = camel(&name) != property;
    (name, rename)
}

/// Returns the part of a type name that stands for a property.
pub(super) fn type_name(property: &str) -> String {
    let words = identifier(property);
    words.split('_').map(capitalized).collect()
}

/// Returns the name, with a number appended if it is taken.
pub(super) fn unlike(name: &str, taken: &BTreeSet<String>) -> String {
    let mut numbers = 2_u64..;
    let mut free = name.to_owned();
    while taken.contains(&free) {
        free = format!("{name}{}", numbers.next().unwrap_or_default());
    }
    free
}

/// Replaces the characters that a Rust identifier cannot have.
fn identifier(property: &str) -> String {
    property.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

/// Returns the JSON name that serde derives from a field with `rename_all = "camelCase"`.
fn camel(field: &str) -> String {
    let name = type_name(field);
    let mut letters = name.chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_of_rust_and_keep_those_of_the_schema() {
        let mut taken = BTreeSet::new();
        for (property, name, rename) in [
            ("secretName", "secret_name", false),
            ("podIP", "pod_ip", true),
            ("type", "type_", false),
            ("$ref", "ref_", true),
            ("a-b", "a_b", true),
            ("4xx", "_4xx", false),
            ("", "field", true),
            ("-", "field2", true),
            ("ä", "field3", true),
            ("aB", "a_b2", true),
        ] {
            let found = field_name(property, &taken);
            assert_eq!(found, (name.to_owned(), rename), "{property}");
            taken.insert(found.0);
        }
        assert_eq!(type_name("privateKey"), "PrivateKey");
        assert_eq!(type_name("x-y.z"), "XYZ");
    }
}
