//! Words: the names of fields and variants in JSON, by their serde attributes.

use syn::punctuated::Punctuated;
use syn::{Expr, ExprLit, Ident, Lit, Meta, Token};

use crate::history::VersionedAttribute;

/// Returns the name of a field in JSON.
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

/// Returns the name of a variant in JSON.
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

/// Returns whether the JSON of a variant has the name of the variant as its only member.
pub(crate) fn is_member(container: &[VersionedAttribute]) -> bool {
    let metas = metas(container);
    !metas
        .iter()
        .any(|meta| meta.path().is_ident("untagged") || meta.path().is_ident("tag"))
}

/// Joins words by a rule of serde.
fn join(words: &[String], rule: Option<&str>, plain: &str) -> String {
    let lower = || words.iter().map(|word| word.to_lowercase());
    let upper = || words.iter().map(|word| word.to_uppercase());
    let first = |word: &String| {
        let mut chars = word.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars).collect::<String>()
    };
    let kebab = |words: Vec<String>| words.join("-");
    let snake = |words: Vec<String>| words.join("_");
    match rule {
        Some("lowercase") => lower().collect(),
        Some("UPPERCASE") => upper().collect(),
        Some("PascalCase") => words.iter().map(first).collect(),
        Some("camelCase") => {
            let rest = words.iter().skip(1).map(first);
            words.first().cloned().into_iter().chain(rest).collect()
        }
        Some("snake_case") => snake(lower().collect()),
        Some("SCREAMING_SNAKE_CASE") => snake(upper().collect()),
        Some("kebab-case") => kebab(lower().collect()),
        Some("SCREAMING-KEBAB-CASE") => kebab(upper().collect()),
        _ => plain.to_owned(),
    }
}

/// Returns the text of a serde attribute.
fn serde(attributes: &[VersionedAttribute], key: &str) -> Option<String> {
    let metas = metas(attributes);
    let found = metas.into_iter().find(|meta| meta.path().is_ident(key))?;
    let Meta::NameValue(pair) = found else {
        return None;
    };
    match pair.value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Some(text.value()),
        _ => None,
    }
}

fn metas(attributes: &[VersionedAttribute]) -> Vec<Meta> {
    let parser = Punctuated::<Meta, Token![,]>::parse_terminated;
    let serde = attributes
        .iter()
        .filter(|one| one.attribute.path().is_ident("serde"));
    serde
        .filter_map(|one| one.attribute.parse_args_with(parser).ok())
        .flatten()
        .collect()
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
            // Serde's `lowercase` keeps the underscores of a field.
            if rule != "lowercase" {
                assert_eq!(field(&one, &[], &container), name);
            }
            assert_eq!(variant(&other, &[], &container), of_variant);
        }
        assert_eq!(field(&one, &[], &[]), "ready_replicas");
        assert_eq!(variant(&other, &[], &[]), "BlueGreen");
    }
}
