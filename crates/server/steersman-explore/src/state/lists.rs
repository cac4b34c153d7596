//! Machine: sorts the lists of an object that have no order: lists with keys, and lists that hold generated names.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;

use crate::field_path::join_member;
use crate::state::texts::visit_texts;

/// The member that identifies the items of a list, as `type` does in a list of conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListKey {
    Name,
    Type,
    Key,
    Uid,
    /// `kind` and `name` together, as in owner references.
    KindAndName,
}

/// The leaves of a value by their paths. Two values have the same content if they differ in the order of members only.
pub(super) type Content = BTreeMap<String, String>;

impl ListKey {
    /// Returns the key of lists: the first member that all items have as a text, with a different text in each item of
    /// a list. `None` if the lists have no items, or items without such a member.
    pub(super) fn of(lists: &[&[Value]]) -> Option<Self> {
        let keys = [
            Self::Name,
            Self::Type,
            Self::Key,
            Self::Uid,
            Self::KindAndName,
        ];
        let has_items = lists.iter().any(|items| !items.is_empty());
        keys.into_iter().find(|key| {
            has_items
                && lists.iter().all(|items| {
                    let texts: Option<BTreeSet<String>> =
                        items.iter().map(|item| key.text(item)).collect();
                    texts.is_some_and(|texts| texts.len() == items.len())
                })
        })
    }

    /// Returns the text of an item under this key.
    pub(super) fn text(self, item: &Value) -> Option<String> {
        let member = |name: &str| item.get(name).and_then(Value::as_str);
        let text = match self {
            Self::Name => member("name")?,
            Self::Type => member("type")?,
            Self::Key => member("key")?,
            Self::Uid => member("uid")?,
            Self::KindAndName => return Some(format!("{} {}", member("kind")?, member("name")?)),
        };
        Some(text.to_owned())
    }
}

/// Returns the content of a value.
pub(super) fn content(value: &Value) -> Content {
    let mut leaves = Content::new();
    collect(value, "", &mut leaves);
    leaves
}

fn collect(value: &Value, path: &str, leaves: &mut Content) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                collect(member, &join_member(path, name), leaves);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (at, item) in items.iter().enumerate() {
                collect(item, &format!("{path}[{at}]"), leaves);
            }
        }
        leaf => {
            leaves.insert(path.to_owned(), leaf.to_string());
        }
    }
}

/// Sorts the lists of an object that have no order:
///
/// - lists of objects with a [`ListKey`], by that key. This includes the containers of Pods: the order of containers
///   rarely has a meaning, but a changed order of init containers is not seen;
/// - lists that hold generated names, by these names: such a list often has the order of the random names;
/// - `metadata.finalizers`.
///
/// `generated` has the texts that stand for generated names.
pub(super) fn sort_lists(object: &mut Value, generated: &HashSet<String>) {
    if let Some(Value::Array(finalizers)) = object.pointer_mut("/metadata/finalizers") {
        finalizers.sort_by_cached_key(content);
    }
    sort(object, generated);
}

fn sort(value: &mut Value, generated: &HashSet<String>) {
    match value {
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| sort(member, generated)),
        Value::Array(items) => {
            items.iter_mut().for_each(|item| sort(item, generated));
            if items.len() < 2 {
                return;
            }
            if let Some(key) = ListKey::of(&[items.as_slice()]) {
                items.sort_by_cached_key(|item| key.text(item));
            } else if items
                .iter()
                .any(|item| !names_in(item, generated).is_empty())
            {
                items.sort_by_cached_key(|item| (names_in(item, generated), content(item)));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns the generated names in a value.
fn names_in(value: &Value, generated: &HashSet<String>) -> Vec<String> {
    let mut names = Vec::new();
    if !generated.is_empty() {
        visit_texts(value, &mut |_, text| {
            if generated.contains(text) {
                names.push(text.to_owned());
            }
        });
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_with_a_key_is_sorted_and_another_list_keeps_its_order() {
        for (list, sorted) in [
            (
                json!([{"name": "b"}, {"name": "a"}]),
                json!([{"name": "a"}, {"name": "b"}]),
            ),
            (
                json!([{"type": "b"}, {"type": "a"}]),
                json!([{"type": "a"}, {"type": "b"}]),
            ),
            (
                json!([{"key": "b"}, {"key": "a"}]),
                json!([{"key": "a"}, {"key": "b"}]),
            ),
            (
                json!([{"uid": "b"}, {"uid": "a"}]),
                json!([{"uid": "a"}, {"uid": "b"}]),
            ),
            (
                json!([{"kind": "B", "name": "a"}, {"kind": "A", "name": "a"}]),
                json!([{"kind": "A", "name": "a"}, {"kind": "B", "name": "a"}]),
            ),
            (
                json!([{"name": "a", "type": "b"}, {"name": "a", "type": "a"}]),
                json!([{"name": "a", "type": "a"}, {"name": "a", "type": "b"}]),
            ),
            (
                json!([[{"name": "b"}, {"name": "a"}], 1]),
                json!([[{"name": "a"}, {"name": "b"}], 1]),
            ),
            (json!(["b", "a"]), json!(["b", "a"])),
            (
                json!([{"name": "b"}, {"value": "a"}]),
                json!([{"name": "b"}, {"value": "a"}]),
            ),
            (
                json!([{"name": 2}, {"name": 1}]),
                json!([{"name": 2}, {"name": 1}]),
            ),
            (json!(["web-*2", "web-*1"]), json!(["web-*1", "web-*2"])),
            (
                json!([{"ip": 1, "of": "web-*2"}, {"ip": 2, "of": "web-*1"}]),
                json!([{"ip": 2, "of": "web-*1"}, {"ip": 1, "of": "web-*2"}]),
            ),
        ] {
            let mut object = json!({"spec": {"list": list}});
            sort_lists(
                &mut object,
                &["web-*1".to_owned(), "web-*2".to_owned()].into(),
            );
            assert_eq!(object["spec"]["list"], sorted);
        }
    }

    #[test]
    fn the_content_has_each_leaf_with_its_path() {
        let leaves = content(&json!({"a": [{"b.c": 1}, {}], "d": []}));
        let found: Vec<String> = leaves
            .iter()
            .map(|(path, leaf)| format!("{path}={leaf}"))
            .collect();
        assert_eq!(found, ["a[0][\"b.c\"]=1", "a[1]={}", "d=[]"]);
    }
}
