//! Machine: reads the generated table of the lists that strategic merges merge, once, on first use.
//!
//! One line is one type: its name, `@kind:` and a version where it is a kind's, then `field:way` for each field
//! that is such a list or leads to one. A way is `[key]` for a list whose elements are found by their key, with the
//! type of these where it leads on; `[]` for a list of single values; or the name of a type.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use steersman_object::Kind;

const TEXT: &str = include_str!("lists.txt");

/// The fields of a type, as far as they lead to a list that merges.
pub(crate) type Fields = BTreeMap<&'static str, Way>;

/// What is at a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A list whose elements are found by this key, and the type of these.
    Keyed {
        key: &'static str,
        items: &'static str,
    },
    /// A list of single values, each its own identity.
    Union,
    /// A struct of this type.
    Struct(&'static str),
}

/// All types and kinds.
#[derive(Debug, Default)]
struct Table {
    types: BTreeMap<&'static str, Fields>,
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
}

/// The fields of a kind of Kubernetes' own; none for any other, which the server does not merge by keys either.
pub(crate) fn fields_of(kind: &Kind) -> Option<&'static Fields> {
    let gvk = kind.gvk();
    let kinds = &table().kinds;
    fields(kinds.get(&(gvk.api_version().as_str(), gvk.kind()))?)
}

/// The fields of the type of this name, where it leads to a list that merges.
pub(crate) fn fields(name: &str) -> Option<&'static Fields> {
    table().types.get(name)
}

fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| read(TEXT))
}

/// Reads the text form.
fn read(text: &'static str) -> Table {
    let mut table = Table::default();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let Some(name) = words.next() else {
            continue;
        };
        let mut fields = Fields::new();
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

fn way_of(text: &'static str) -> Way {
    match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some(("", _)) => Way::Union,
        Some((key, items)) => Way::Keyed { key, items },
        None => Way::Struct(text),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use steersman_object::{Gvk, Scope};

    use super::*;

    #[test]
    fn the_way_to_a_list_is_found() {
        let mut at = fields_of(&Kind::of::<Deployment>()).unwrap();
        for field in ["spec", "template", "spec"] {
            let Way::Struct(name) = at[field] else {
                panic!("{field}")
            };
            at = fields(name).unwrap();
        }
        let containers = Way::Keyed {
            key: "name",
            items: "core.v1.Container",
        };
        assert_eq!(at["containers"], containers);
        assert!(!at.contains_key("tolerations"));
        let meta = fields("meta.v1.ObjectMeta").unwrap();
        assert_eq!(meta["finalizers"], Way::Union);
    }

    #[test]
    fn every_type_that_is_named_is_there_and_others_are_not() {
        let table = table();
        for (name, fields) in &table.types {
            for way in fields.values() {
                if let Way::Struct(next) | Way::Keyed { items: next, .. } = way {
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
