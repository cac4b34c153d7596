//! Machine: computes the strategic merge patch that turns one object of a Kubernetes kind into another.
//!
//! A strategic merge patch changes lists with a merge key element by element, so that elements that other clients added
//! stay: a new or changed element is named with its key, a removed element has the directive `$patch: delete`, and
//! `$setElementOrder` gives the order (apimachinery, `pkg/util/strategicpatch`).

mod lists;

use serde_json::{Map, Value, json};

use super::diff::{ObjectDifference, holds_list, same, without_nulls};

use lists::{FieldType, fields};
pub(crate) use lists::{ListFields, fields_of};

const PATCH: &str = "$patch";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

type PatchMembers = Map<String, Value>;

/// A difference that no strategic merge patch can express: two elements of a list have the same merge key, or a map has
/// a key that the server would take for a directive, such as `$patch`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Inexpressible;

/// Returns the smallest strategic merge patch from `before` to `after`; `None` if they are equal. `fields` has the
/// merged lists of the type.
pub(crate) fn strategic_diff(
    fields: &'static ListFields,
    before: &Value,
    after: &Value,
) -> Result<Option<ObjectDifference>, Inexpressible> {
    let (Value::Object(was), Value::Object(is)) = (before, after) else {
        return Err(Inexpressible);
    };
    if holds_directive(before) || holds_directive(after) {
        return Err(Inexpressible);
    }
    let mut patch = StrategicPatch::default();
    let members = patch.members(Some(fields), was, is)?;
    Ok(members.map(|members| ObjectDifference {
        patch: Value::Object(members),
        writes_list: patch.writes_list,
    }))
}

/// The state of the computation of one patch: whether the patch so far sets or removes a whole list.
#[derive(Default)]
struct StrategicPatch {
    writes_list: bool,
}

impl StrategicPatch {
    fn members(
        &mut self,
        fields: Option<&'static ListFields>,
        before: &PatchMembers,
        after: &PatchMembers,
    ) -> Result<Option<PatchMembers>, Inexpressible> {
        let mut patch = PatchMembers::new();
        for (name, was) in before.iter().filter(|(name, _)| is_set(before, name)) {
            if is_set(after, name) {
                continue;
            }
            match (way(fields, name), was) {
                // For a removed list, the patch deletes each of its elements, so that elements that other clients added
                // stay.
                (Some(way @ (FieldType::Keyed { .. } | FieldType::Union)), Value::Array(was)) => {
                    self.list(name, Some(way), (was, &[]), &mut patch)?;
                }
                _ => {
                    self.writes_list |= holds_list(was);
                    patch.insert(name.clone(), Value::Null);
                }
            }
        }
        for (name, is) in after.iter().filter(|(name, _)| is_set(after, name)) {
            let way = way(fields, name);
            match (before.get(name).filter(|was| !was.is_null()), is) {
                (None, is) => {
                    self.writes_list |= sets_whole_list(way, is);
                    patch.insert(name.clone(), without_nulls(is));
                }
                (Some(was), is) if same(was, is) => {}
                (Some(Value::Object(was)), Value::Object(is)) => {
                    let below = self.members(way.and_then(within), was, is)?;
                    patch.extend(below.map(|below| (name.clone(), Value::Object(below))));
                }
                (Some(Value::Array(was)), Value::Array(is)) => {
                    self.list(name, way, (was, is), &mut patch)?;
                }
                (Some(was), is) => {
                    self.writes_list |= was.is_array() || holds_list(is);
                    patch.insert(name.clone(), without_nulls(is));
                }
            }
        }
        Ok((!patch.is_empty()).then_some(patch))
    }

    /// Adds the difference between the old state `was` and the new state `is` of a list to `patch`. `way` is the way in
    /// which the server merges the list.
    fn list(
        &mut self,
        name: &str,
        way: Option<&'static FieldType>,
        (was, is): (&[Value], &[Value]),
        patch: &mut PatchMembers,
    ) -> Result<(), Inexpressible> {
        match way {
            Some(FieldType::Keyed { key, items }) => {
                let (was, is) = (by_key(was, key)?, by_key(is, key)?);
                self.keyed((name, key), fields(items), (&was, &is), patch)?;
            }
            Some(FieldType::Union) => union(name, (was, is), patch),
            Some(FieldType::Struct(_)) | None => {
                self.writes_list = true;
                patch.insert(name.to_owned(), Value::Array(is.to_vec()));
            }
        }
        Ok(())
    }

    fn keyed(
        &mut self,
        (name, key): (&str, &str),
        items: Option<&'static ListFields>,
        (was, is): (&ByKey<'_>, &ByKey<'_>),
        patch: &mut PatchMembers,
    ) -> Result<(), Inexpressible> {
        let find = |list: &ByKey<'_>, of: &Value| list.iter().position(|(other, _)| *other == of);
        let mut changes = Vec::new();
        for (of, one) in is {
            let change = match find(was, of) {
                Some(at) => self.members(items, was[at].1, one)?,
                None => {
                    self.writes_list |= holds_whole_list(items, one);
                    let set = one.iter().filter(|(_, value)| !value.is_null());
                    Some(
                        set.map(|(name, value)| (name.clone(), without_nulls(value)))
                            .collect(),
                    )
                }
            };
            changes.extend(change.map(|mut change| {
                change.insert(key.to_owned(), (*of).clone());
                Value::Object(change)
            }));
        }
        for (of, _) in was.iter().filter(|(of, _)| find(is, of).is_none()) {
            changes.push(json!({PATCH: "delete", key: of}));
        }
        let kept = is.iter().filter_map(|(of, _)| find(was, of));
        if changes.is_empty() && kept.is_sorted() {
            return Ok(());
        }
        if !is.is_empty() {
            let order = is.iter().map(|(of, _)| json!({key: of})).collect();
            patch.insert(format!("{SET_ORDER}{name}"), Value::Array(order));
        }
        if !changes.is_empty() {
            patch.insert(name.to_owned(), Value::Array(changes));
        }
        Ok(())
    }
}

fn union(name: &str, (was, is): (&[Value], &[Value]), patch: &mut PatchMembers) {
    let without = |all: &[Value], those: &[Value]| -> Vec<Value> {
        let rest = all.iter().filter(|one| !those.contains(one));
        rest.cloned().collect()
    };
    let (added, removed) = (without(is, was), without(was, is));
    if !is.is_empty() {
        patch.insert(format!("{SET_ORDER}{name}"), Value::Array(is.to_vec()));
    }
    if !added.is_empty() {
        patch.insert(name.to_owned(), Value::Array(added));
    }
    if !removed.is_empty() {
        patch.insert(format!("{DELETE_FROM}{name}"), Value::Array(removed));
    }
}

type ByKey<'a> = Vec<(&'a Value, &'a PatchMembers)>;

/// Returns each element of a list with the value of its merge key. Fails if an element has no value or two elements
/// have the same value, because the server could not match such elements.
fn by_key<'a>(list: &'a [Value], key: &str) -> Result<ByKey<'a>, Inexpressible> {
    let mut found: ByKey<'_> = Vec::with_capacity(list.len());
    for one in list {
        let one = one.as_object().ok_or(Inexpressible)?;
        let of = one.get(key).filter(|of| !of.is_null());
        let of = of.ok_or(Inexpressible)?;
        if found.iter().any(|(other, _)| *other == of) {
            return Err(Inexpressible);
        }
        found.push((of, one));
    }
    Ok(found)
}

fn is_set(members: &PatchMembers, name: &str) -> bool {
    members.get(name).is_some_and(|value| !value.is_null())
}

fn holds_directive(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| is_directive(name) || holds_directive(value)),
        Value::Array(items) => items.iter().any(holds_directive),
        _ => false,
    }
}

fn is_directive(name: &str) -> bool {
    let all = [
        "$patch", "$retainKeys", "$setElementOrder", "$deleteFromPrimitiveList",
    ];
    all.iter().any(|directive| name.starts_with(directive))
}

fn way(fields: Option<&'static ListFields>, name: &str) -> Option<&'static FieldType> {
    fields?.get(name)
}

/// Returns the fields of the struct type `way`; `None` if `way` is a list.
fn within(way: &'static FieldType) -> Option<&'static ListFields> {
    match way {
        FieldType::Struct(name) => fields(name),
        FieldType::Keyed { .. } | FieldType::Union => None,
    }
}

/// Returns whether a patch that sets an absent field to `value` sets a list that the server does not merge.
fn sets_whole_list(way: Option<&'static FieldType>, value: &Value) -> bool {
    match (way, value) {
        (Some(FieldType::Union), Value::Array(_)) => false,
        (Some(FieldType::Keyed { items, .. }), Value::Array(list)) => {
            let mut ones = list.iter().filter_map(Value::as_object);
            ones.any(|one| holds_whole_list(fields(items), one))
        }
        (way, Value::Object(inner)) => holds_whole_list(way.and_then(within), inner),
        (_, value) => value.is_array(),
    }
}

fn holds_whole_list(fields: Option<&'static ListFields>, inner: &PatchMembers) -> bool {
    let mut inner = inner.iter();
    inner.any(|(name, value)| sets_whole_list(way(fields, name), value))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use steersman_object::Kind;

    use super::*;

    fn diff(before: &Value, after: &Value) -> Option<(Value, bool)> {
        let fields = fields_of(&Kind::of::<Pod>()).unwrap();
        let difference = strategic_diff(fields, before, after).unwrap()?;
        Some((difference.patch, difference.writes_list))
    }

    #[test]
    fn elements_are_patched_by_their_merge_keys() {
        let pod = |containers: Value| json!({"spec": {"containers": containers}});
        let (a, b) = (
            json!({"name": "a", "image": "1", "args": ["x"]}),
            json!({"name": "b"}),
        );
        for (before, after, spec, writes_list) in [
            (
                json!([a, b]),
                json!([{"name": "a", "image": "2", "args": ["x"]}, b]),
                json!({
                    "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                    "containers": [{"name": "a", "image": "2"}],
                }),
                false,
            ),
            (
                json!([a, b]),
                json!([b]),
                json!({
                    "$setElementOrder/containers": [{"name": "b"}],
                    "containers": [{"name": "a", "$patch": "delete"}],
                }),
                false,
            ),
            (
                json!([a, b]),
                json!([b, a]),
                json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
                false,
            ),
            // A list without a merge key (`args`), inside of an element of a list with one, is replaced as a whole.
            (
                json!([a]),
                json!([{"name": "a", "image": "1", "args": ["y"]}]),
                json!({
                    "$setElementOrder/containers": [{"name": "a"}],
                    "containers": [{"name": "a", "args": ["y"]}],
                }),
                true,
            ),
            (
                json!([a]),
                Value::Null,
                json!({"containers": [{"name": "a", "$patch": "delete"}]}),
                false,
            ),
        ] {
            let found = diff(&pod(before.clone()), &pod(after.clone()));
            let expected = Some((json!({"spec": spec}), writes_list));
            assert_eq!(found, expected, "{before} to {after}");
        }
        assert_eq!(diff(&pod(json!([a, b])), &pod(json!([a, b]))), None);
    }

    #[test]
    fn equal_merge_keys_and_directives_cannot_be_expressed() {
        let fields = fields_of(&Kind::of::<Pod>()).unwrap();
        let pod = |containers: Value| json!({"spec": {"containers": containers}});
        let two = json!([{"name": "a"}, {"name": "a"}]);
        for odd in [
            pod(two),
            pod(json!([{"image": "i"}])),
            json!({"metadata": {"annotations": {"$patch": "delete"}}}),
        ] {
            let plain = pod(json!([{"name": "a"}]));
            assert_eq!(strategic_diff(fields, &plain, &odd), Err(Inexpressible));
            assert_eq!(strategic_diff(fields, &odd, &plain), Err(Inexpressible));
        }
    }

    #[test]
    fn single_values_are_added_and_removed() {
        let pod = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
        let found = diff(&pod(json!(["a", "b"])), &pod(json!(["b", "c"])));
        let expected = json!({"metadata": {
            "$setElementOrder/finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"],
            "finalizers": ["c"],
        }});
        assert_eq!(found, Some((expected, false)));
        let found = diff(&pod(Value::Null), &pod(json!(["a"])));
        assert_eq!(found, Some((pod(json!(["a"])), false)));
    }

    #[test]
    fn a_patch_that_removes_a_whole_list_reports_it() {
        let with = json!({"spec": {"tolerations": [{"key": "k"}]}});
        assert_eq!(diff(&json!({}), &with), Some((with.clone(), true)));
        let (patch, writes_list) = diff(&with, &json!({})).unwrap();
        assert_eq!((patch, writes_list), (json!({"spec": null}), true));
    }

    #[test]
    fn directives_are_found_at_any_depth() {
        assert!(holds_directive(&json!([{"a": {"$patch": 1}}])));
        assert!(holds_directive(&json!({"$setElementOrder/x": []})));
        assert!(!holds_directive(&json!({"$ref": "x", "a": "$patch"})));
    }
}
