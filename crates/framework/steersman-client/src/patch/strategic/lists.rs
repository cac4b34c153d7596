//! Machine: reads the generated table of the lists that a strategic merge patch merges, once, on first use.
//!
//! Each line is one type: its name, `@kind:` and a version if it is the type of a kind, then `field:type` for each
//! field that is a merged list or contains one. The type of a field is `[key]` and the element type for a list with a
//! merge key, `[]` for a list of single values, or the name of a struct.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use steersman_object::Kind;

const TEXT: &str = include_str!("lists.txt");

pub(crate) type ListFields = BTreeMap<&'static str, FieldType>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FieldType {
    /// A list that merges by the field `key` of its elements. `items` is the type of the elements, or empty if that
    /// type has no merged lists.
    Keyed {
        key: &'static str,
        items: &'static str,
    },
    /// A list of single values that merges by value: each value is an element of its own.
    Union,
    /// A struct: the name of its type in the table of `lists.txt`.
    Struct(&'static str),
}

#[derive(Debug, Default)]
struct ListTypes {
    types: BTreeMap<&'static str, ListFields>,
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
}

/// Returns the fields of one of Kubernetes' own kinds that are, or contain, merged lists. `None` for other kinds,
/// because the server does not merge their lists by key.
pub(crate) fn fields_of(kind: &Kind) -> Option<&'static ListFields> {
    let gvk = kind.gvk();
    let kinds = &table().kinds;
    fields(kinds.get(&(gvk.api_version().as_str(), gvk.kind()))?)
}

/// Returns the fields of the type with this name that are, or contain, merged lists; `None` if it has no such fields.
pub(crate) fn fields(name: &str) -> Option<&'static ListFields> {
    table().types.get(name)
}

fn table() -> &'static ListTypes {
    static TABLE: OnceLock<ListTypes> = OnceLock::new();
    TABLE.get_or_init(|| read(TEXT))
}

fn read(text: &'static str) -> ListTypes {
    let mut table = ListTypes::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let Some(name) = words.next() else { continue };
        let mut fields = ListFields::new();
        for word in words {
            if let Some(version) = word.strip_prefix("@kind:") {
                let kind = name.rsplit('.').next().unwrap_or(name);
                table.kinds.insert((version, kind), name);
            } else if let Some((field, way)) = word.split_once(':') {
                fields.insert(field, way_of(way));
            }
        }
        table.types.insert(name, fields);
    }
    table
}

fn way_of(text: &'static str) -> FieldType {
    match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some(("", _)) => FieldType::Union,
        Some((key, items)) => FieldType::Keyed { key, items },
        None => FieldType::Struct(text),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use steersman_object::{Gvk, Scope};

    use super::*;

    #[test]
    fn the_path_to_a_list_with_a_merge_key_is_found() {
        let mut at = fields_of(&Kind::of::<Deployment>()).unwrap();
        for field in ["spec", "template", "spec"] {
            let FieldType::Struct(name) = at[field] else {
                panic!("{field}")
            };
            at = fields(name).unwrap();
        }
        let containers = FieldType::Keyed {
            key: "name",
            items: "core.v1.Container",
        };
        assert_eq!(at["containers"], containers);
        assert!(!at.contains_key("tolerations"));
        let meta = fields("meta.v1.ObjectMeta").unwrap();
        assert_eq!(meta["finalizers"], FieldType::Union);
    }

    #[test]
    fn every_named_type_is_in_the_table() {
        let table = table();
        for (name, fields) in &table.types {
            for way in fields.values() {
                if let FieldType::Struct(next) | FieldType::Keyed { items: next, .. } = way {
                    assert!(
                        next.is_empty() || table.types.contains_key(next),
                        "{name} leads to {next}"
                    );
                }
            }
        }
        let site = Gvk::new("web.example.com", "v1", "Website");
        let site = Kind::new(site, "websites", Scope::Namespaced);
        assert!(fields_of(&site).is_none());
    }
}
