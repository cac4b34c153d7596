//! Words: the JSON names of fields and variants, by their serde attributes.

use syn::{Ident, LitStr, Meta};

use crate::history::{VersionedAttribute, literal, metas};

pub(crate) fn field(
    name: &Ident,
    attributes: &[VersionedAttribute],
    container: &[VersionedAttribute],
) -> String {
    let plain = name.to_string();
    let plain = plain.trim_start_matches("r#");
    serde(attributes, "rename").unwrap_or_else(|| {
        let words: Vec<String> = plain.split('_').map(str::to_owned).collect();
        join(&words, serde(container, "rename_all").as_deref(), plain)
    })
}

pub(crate) fn variant(
    name: &Ident,
    attributes: &[VersionedAttribute],
    container: &[VersionedAttribute],
) -> String {
    let plain = name.to_string();
    serde(attributes, "rename").unwrap_or_else(|| {
        let mut words: Vec<String> = Vec::new();
        for char in plain.chars() {
            match words.last_mut() {
                Some(word) if !char.is_uppercase() => word.push(char),
                _ => words.push(char.to_lowercase().collect()),
            }
        }
        join(&words, serde(container, "rename_all").as_deref(), &plain)
    })
}

/// Returns whether the JSON of a variant is an object with the variant's name as its only member.
pub(crate) fn is_member(container: &[VersionedAttribute]) -> bool {
    let is_other = |meta: Meta| {
        ["untagged", "tag"]
            .iter()
            .any(|name| meta.path().is_ident(name))
    };
    !serde_metas(container).any(is_other)
}

/// Joins the words of a Rust name by a serde `rename_all` rule.
fn join(words: &[String], rule: Option<&str>, plain: &str) -> String {
    let lower = || words.iter().map(|word| word.to_lowercase());
    let upper = || words.iter().map(|word| word.to_uppercase());
    let first = |word: &String| {
        let mut chars = word.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars).collect::<String>()
    };
    let joined = |words: Vec<String>, separator: &str| words.join(separator);
    match rule {
        Some("lowercase") => lower().collect(),
        Some("UPPERCASE") => upper().collect(),
        Some("PascalCase") => words.iter().map(first).collect(),
        Some("camelCase") => {
            let rest = words.iter().skip(1).map(first);
            words.first().cloned().into_iter().chain(rest).collect()
        }
        Some("snake_case") => joined(lower().collect(), "_"),
        Some("SCREAMING_SNAKE_CASE") => joined(upper().collect(), "_"),
        Some("kebab-case") => joined(lower().collect(), "-"),
        Some("SCREAMING-KEBAB-CASE") => joined(upper().collect(), "-"),
        _ => plain.to_owned(),
    }
}

fn serde(attributes: &[VersionedAttribute], key: &str) -> Option<String> {
    let found = serde_metas(attributes).find(|meta| meta.path().is_ident(key))?;
    literal(&found.require_name_value().ok()?.value).map(LitStr::value)
}

fn serde_metas(attributes: &[VersionedAttribute]) -> impl Iterator<Item = Meta> {
    let attributes = attributes.iter().map(|one| &one.attribute);
    let serde = attributes.filter(|one| one.path().is_ident("serde"));
    serde.filter_map(|one| metas(one).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use quote::format_ident;
    use syn::parse_quote;

    use super::*;

    fn attributes(rule: &str) -> Vec<VersionedAttribute> {
        let attribute = parse_quote!(#[serde(deny_unknown_fields, rename_all = #rule)]);
        vec![VersionedAttribute {
            only: None,
            attribute,
        }]
    }

    #[test]
    fn names_follow_the_rules_of_serde() {
        let (one, other) = (format_ident!("ready_replicas"), format_ident!("BlueGreen"));
        for (rule, name, of_variant) in [
            ("camelCase", "readyReplicas", "blueGreen"),
            ("PascalCase", "ReadyReplicas", "BlueGreen"),
            ("kebab-case", "ready-replicas", "blue-green"),
            ("SCREAMING_SNAKE_CASE", "READY_REPLICAS", "BLUE_GREEN"),
            ("lowercase", "readyreplicas", "bluegreen"),
        ] {
            let container = attributes(rule);
            // Of serde's rules, `lowercase` keeps the underscores of a field name.
            if rule != "lowercase" {
                assert_eq!(field(&one, &[], &container), name);
            }
            assert_eq!(variant(&other, &[], &container), of_variant);
        }
        assert_eq!(field(&one, &[], &[]), "ready_replicas");
        assert_eq!(variant(&other, &[], &[]), "BlueGreen");
    }
}
