//! Machine: computes the JSON merge patch that turns one object into another.

use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectDifference {
    /// The merge patch (RFC 7386).
    pub(crate) patch: Value,
    /// Whether the patch sets or removes a whole list, even an empty list. Elements that other clients added meanwhile
    /// would be lost.
    pub(crate) writes_list: bool,
}

/// Returns the smallest merge patch from `before` to `after`; `None` if they are equal.
///
/// `null` members count as absent. Numbers are compared as text, so that integers beyond 2^53 are neither rounded nor
/// mistaken for equal.
pub(crate) fn merge_diff(before: &Value, after: &Value) -> Option<ObjectDifference> {
    let mut writes_list = false;
    let patch = difference(Some(before), after, &mut writes_list)?;
    Some(ObjectDifference { patch, writes_list })
}

fn difference(before: Option<&Value>, after: &Value, writes_list: &mut bool) -> Option<Value> {
    match (before, after) {
        (Some(Value::Object(before)), Value::Object(after)) => {
            members(before, after, writes_list).map(Value::Object)
        }
        (Some(before), after) if same(before, after) => None,
        (before, after) => {
            *writes_list |= before.is_some_and(Value::is_array) || holds_list(after);
            Some(without_nulls(after))
        }
    }
}

fn members(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    writes_list: &mut bool,
) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for (name, was) in before.iter().filter(|(_, was)| !was.is_null()) {
        if after.get(name).is_none_or(Value::is_null) {
            *writes_list |= holds_list(was);
            patch.insert(name.clone(), Value::Null);
        }
    }
    for (name, is) in after.iter().filter(|(_, is)| !is.is_null()) {
        let was = before.get(name).filter(|was| !was.is_null());
        if let Some(change) = difference(was, is, writes_list) {
            patch.insert(name.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(patch)
}

/// Returns whether two values are equal. An absent member of an object equals a `null` member; list elements are
/// compared as they are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => members(a, b, &mut false).is_none(),
        _ => a == b,
    }
}

/// Removes the `null` members of objects: in a merge patch a `null` removes a field. Lists stay unchanged.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(name, member)| (name.clone(), without_nulls(member)))
                .collect(),
        ),
        other => other.clone(),
    }
}

pub(crate) fn holds_list(value: &Value) -> bool {
    match value {
        Value::Array(_) => true,
        Value::Object(members) => members.values().any(holds_list),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patch(before: &Value, after: &Value) -> Option<Value> {
        merge_diff(before, after).map(|difference| difference.patch)
    }

    #[test]
    fn the_patch_holds_only_the_difference() {
        for (before, after, expected) in [
            (json!({"a": 1}), json!({"a": 1}), None),
            (json!({"a": 1}), json!({"a": 2}), Some(json!({"a": 2}))),
            (
                json!({"a": 1, "b": 2}),
                json!({"b": 2}),
                Some(json!({"a": null})),
            ),
            (json!({"a": null}), json!({}), None),
            (
                json!({}),
                json!({"a": {"b": null, "c": 1}}),
                Some(json!({"a": {"c": 1}})),
            ),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "c": 3}}),
                Some(json!({"a": {"c": 3}})),
            ),
            (
                json!({"a": [1, 2]}),
                json!({"a": [1]}),
                Some(json!({"a": [1]})),
            ),
            (
                json!({"a": "x"}),
                json!({"a": {"b": 1}}),
                Some(json!({"a": {"b": 1}})),
            ),
            (
                json!({"a": {}}),
                json!({"a": {"b": {}}}),
                Some(json!({"a": {"b": {}}})),
            ),
        ] {
            assert_eq!(patch(&before, &after), expected, "{before} to {after}");
        }
    }

    #[test]
    fn integers_beyond_2_to_the_53_are_not_rounded() {
        let (before, after) = (
            json!({"n": 9_007_199_254_740_993_i64}),
            json!({"n": 9_007_199_254_740_992_i64}),
        );
        assert_eq!(patch(&before, &after), Some(after.clone()));
        assert_eq!(
            patch(&after, &json!({"n": i64::MAX})),
            Some(json!({"n": i64::MAX}))
        );
    }

    #[test]
    fn a_patch_that_writes_a_list_reports_it() {
        let writes = |before: Value, after: Value| merge_diff(&before, &after).unwrap().writes_list;
        assert!(writes(
            json!({"a": {"l": [1]}}),
            json!({"a": {"l": [1, 2]}})
        ));
        assert!(writes(json!({"a": {"l": [1]}}), json!({"a": {}})));
        assert!(writes(json!({"a": {"l": [1]}}), json!({})));
        assert!(writes(json!({"a": {}}), json!({"a": {"l": [1]}})));
        assert!(writes(json!({"l": [1]}), json!({"l": 1})));
        assert!(!writes(
            json!({"l": [1], "n": 1}),
            json!({"l": [1], "n": 2})
        ));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                object(inner),
            ]
        })
    }

    fn object(inner: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Value> {
        prop::collection::btree_map("[a-d]", inner, 0..4)
            .prop_map(|members| Value::Object(members.into_iter().collect()))
            .boxed()
    }

    proptest! {
        /// An independent implementation of merge patches turns `a` into `b` with the computed patch.
        #[test]
        fn applying_the_patch_to_the_old_object_gives_the_new_one(a in object(any_value()), b in object(any_value())) {
            let mut patched = a.clone();
            if let Some(patch) = patch(&a, &b) {
                json_patch::merge(&mut patched, &patch);
            }
            prop_assert_eq!(without_nulls(&patched), without_nulls(&b));
        }

        #[test]
        fn a_value_does_not_differ_from_itself(a in object(any_value())) {
            prop_assert_eq!(merge_diff(&a, &a), None);
            prop_assert_eq!(merge_diff(&a, &without_nulls(&a)), None);
        }
    }
}
