//! Tests of validation rules on objects and their old state.

use serde_json::json;

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
fn rules(spec: Json) -> Rules {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    Rules::compile(&Structural::compile(&schema)).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "cases are written in place")]
fn report(rules: &Rules, new: Json, old: Option<Json>) -> Vec<String> {
    let (new, old) = (json!({"spec": new}), old.map(|old| json!({"spec": old})));
    let verdict = rules.validate(&new, old.as_ref());
    let errors = verdict.errors.iter();
    let errors = errors.map(|error| format!("{} {}: {}", error.reason, error.field, error.message));
    let warnings = verdict
        .warnings
        .iter()
        .map(|report| format!("warning {report}"));
    errors.chain(warnings).collect()
}

#[test]
fn refusals_have_the_reason_the_message_and_the_place_that_the_rule_names() {
    let rules = rules(json!({"type": "object", "properties": {
        "a": {"type": "integer", "x-kubernetes-validations": [
            {"rule": "self > 0", "message": " above zero "}, {"rule": "self != 7", "reason": "FieldValueDuplicate"}]},
        "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.n > 0", "fieldPath": ".n", "reason": "FieldValueRequired"}]}},
        "m": {"type": "object", "additionalProperties": {"type": "string",
            "x-kubernetes-validations": [{"rule": "self != 'x'", "messageExpression": "'not ' + self"}]}},
        "a.b": {"type": "string", "x-kubernetes-validations": [{"rule": "self == 'ok'"}]},
    }, "x-kubernetes-validations": [{"rule": "!has(self.a__dot__b) || self.a__dot__b != 'no'"}]}));
    for (spec, wanted) in [
        (
            json!({"a": 0}),
            vec!["FieldValueInvalid spec.a: Invalid value: 0: above zero"],
        ),
        (
            json!({"a": 7}),
            vec!["FieldValueDuplicate spec.a: Duplicate value: 7"],
        ),
        (
            json!({"l": [{"n": 1}, {"n": 0}]}),
            vec!["FieldValueRequired spec.l[1].n: Required value: failed rule: self.n > 0"],
        ),
        (
            json!({"l": [{}]}),
            vec![
                "FieldValueInvalid spec.l[0]: Invalid value: \"object\": no such key: n evaluating rule: self.n > 0",
            ],
        ),
        (
            json!({"m": {"k": "x"}}),
            vec!["FieldValueInvalid spec.m[k]: Invalid value: \"x\": not x"],
        ),
        (
            json!({"a.b": "no"}),
            vec![
                "FieldValueInvalid spec: Invalid value: failed rule: !has(self.a__dot__b) || self.a__dot__b != 'no'",
                "FieldValueInvalid spec.a.b: Invalid value: \"no\": failed rule: self == 'ok'",
            ],
        ),
        (json!({"a": 1, "a.b": "ok", "m": {"k": "y"}}), vec![]),
    ] {
        assert_eq!(report(&rules, spec, None), wanted);
    }
}

#[test]
fn transition_rules_run_only_on_values_with_an_old_value() {
    let immutable = json!([{"rule": "self == oldSelf", "message": "fixed"}]);
    let rules = rules(json!({"type": "object", "properties": {
        "s": {"type": "string", "x-kubernetes-validations": immutable},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"},
                "v": {"type": "integer", "x-kubernetes-validations": immutable}}}},
        "atomic": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
            "v": {"type": "integer", "x-kubernetes-validations": immutable}}},
        "once": {"type": "string", "x-kubernetes-validations": [
            {"rule": "oldSelf.orValue('a') == self", "optionalOldSelf": true, "message": "a, and stays"}]},
    }}));
    assert!(report(&rules, json!({"s": "a"}), None).is_empty());
    assert!(report(&rules, json!({"s": "a"}), Some(json!({}))).is_empty());
    assert_eq!(
        report(&rules, json!({"s": "b"}), Some(json!({"s": "a"}))),
        ["FieldValueInvalid spec.s: Invalid value: \"b\": fixed"]
    );
    // The fields of an object with the map type `atomic` are also compared with their old values.
    assert_eq!(
        report(
            &rules,
            json!({"atomic": {"v": 2}}),
            Some(json!({"atomic": {"v": 1}}))
        ),
        ["FieldValueInvalid spec.atomic.v: Invalid value: 2: fixed"]
    );
    let old = json!({"keyed": [{"k": "x", "v": 1}, {"k": "y", "v": 2}]});
    assert!(
        report(
            &rules,
            json!({"keyed": [{"k": "y", "v": 2}, {"k": "z", "v": 1}]}),
            Some(old.clone())
        )
        .is_empty()
    );
    assert_eq!(
        report(&rules, json!({"keyed": [{"k": "y", "v": 1}]}), Some(old)),
        ["FieldValueInvalid spec.keyed[0].v: Invalid value: 1: fixed"]
    );
    assert_eq!(report(&rules, json!({"once": "b"}), None).len(), 1);
    assert!(report(&rules, json!({"once": "b"}), Some(json!({"once": "b"}))).is_empty());
}

#[test]
fn objects_are_compared_with_their_undeclared_fields() {
    let same = json!([{"rule": "self == oldSelf"}]);
    let rules = rules(json!({"type": "object", "properties": {
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": same},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
            "x-kubernetes-validations": same},
        "keyed": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            "x-kubernetes-validations": same},
    }}));
    let wrong = |old: Json, new: Json| report(&rules, new, Some(old)).len();
    let free = |value: Json| json!({"free": {"a": "x", "z": value}});
    assert_eq!(wrong(free(json!([1])), free(json!([1]))), 0);
    assert_eq!(wrong(free(json!([1])), free(json!([2]))), 1);
    assert_eq!(
        wrong(free(json!({"b": 1})), free(json!({"b": 1, "c": 2}))),
        1
    );
    assert_eq!(
        wrong(json!({"set": ["a", "b"]}), json!({"set": ["b", "a"]})),
        0
    );
    assert_eq!(
        wrong(json!({"set": ["a", "b"]}), json!({"set": ["b", "c"]})),
        1
    );
    let keyed = |v: i64| json!({"keyed": [{"k": "x", "v": v}, {"k": "y", "v": 2}]});
    let turned = json!({"keyed": [{"k": "y", "v": 2}, {"k": "x", "v": 1}]});
    assert_eq!(wrong(keyed(1), turned.clone()), 0);
    assert_eq!(wrong(keyed(3), turned), 1);
}

#[test]
fn a_null_of_an_object_counts_as_absent() {
    let rules = rules(json!({"type": "object", "properties": {
        "a": {"type": "string", "nullable": true},
        "m": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
    }, "x-kubernetes-validations": [
        {"rule": "!has(self.a) && self.?a.orValue('z') == 'z'"},
        {"rule": "'k' in self.m && dyn(self.m['k']) == null"},
    ]}));
    assert!(report(&rules, json!({"a": null, "m": {"k": null}}), None).is_empty());
}

#[test]
fn errors_in_unchanged_values_are_warnings() {
    let rules = rules(json!({"type": "object", "properties": {
        "o": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.a < 3", "message": "below 3"}]},
        "l": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 3"}]}},
        "t": {"type": "string"},
    }}));
    let old = json!({"o": {"a": 5}, "l": [5]});
    assert_eq!(
        report(&rules, json!({"o": {"a": 5}, "t": "x"}), Some(old.clone())),
        ["warning spec.o: Invalid value: below 3"]
    );
    assert_eq!(
        report(&rules, json!({"o": {"a": 5, "b": 1}}), Some(old.clone())),
        ["FieldValueInvalid spec.o: Invalid value: below 3"]
    );
    // Items of a list without keys count as unchanged only if the whole list is unchanged.
    assert_eq!(
        report(&rules, json!({"l": [5], "t": "x"}), Some(old.clone())),
        ["warning spec.l[0]: Invalid value: 5: failed rule: self < 3"]
    );
    assert_eq!(
        report(&rules, json!({"l": [5, 1]}), Some(old)),
        ["FieldValueInvalid spec.l[0]: Invalid value: 5: failed rule: self < 3"]
    );
}

/// CEL-1: the rules of one object have one budget.
#[test]
fn a_budget_is_shared_by_all_rules() {
    let rules = rules(
        json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": "self.all(x, self.exists(y, y == -x) || true)"}]}}}}),
    );
    let inner: Vec<i64> = (1..200).collect();
    let report = report(&rules, json!({"l": vec![inner; 200]}), None);
    let last = report.last().unwrap();
    assert!(last.contains("running out of cost budget"), "{report:?}");
    assert_eq!(report.len(), 1);
}

#[test]
fn rules_in_all_of_apply_to_the_same_value() {
    let rules = rules(
        json!({"type": "object", "properties": {"a": {"type": "integer"}},
        "allOf": [{"x-kubernetes-validations": [{"rule": "self.a == 1"}]},
            {"properties": {"a": {"x-kubernetes-validations": [{"rule": "self < 9"}]}}}]}),
    );
    assert_eq!(report(&rules, json!({"a": 9}), None).len(), 2);
    assert!(report(&rules, json!({"a": 1}), None).is_empty());
}

#[test]
fn a_resource_in_a_resource_is_known_by_type_and_name() {
    let rules = rules(
        json!({"type": "object", "properties": {"t": {"type": "object",
        "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        "x-kubernetes-validations": [{"rule": "self.kind == 'Pod' && self.metadata.name != ''"}]}}}),
    );
    assert!(
        report(
            &rules,
            json!({"t": {"kind": "Pod", "metadata": {"name": "a"}}}),
            None
        )
        .is_empty()
    );
    assert_eq!(
        report(
            &rules,
            json!({"t": {"kind": "Job", "metadata": {"name": "a"}}}),
            None
        )
        .len(),
        1
    );
}
