//! Tests of the judge.

mod deleted_objects;

use serde_json::json;

use super::*;
use crate::field_pattern::FieldPattern;
use crate::points::ReferencePoints;
use crate::rule::Rule;
use crate::scenario::{KindField, ScenarioRules};

fn scenario(rules: ScenarioRules) -> Scenario {
    Scenario {
        initial: Vec::new().into(),
        steps: Vec::new().into(),
        rules: Arc::new(rules),
    }
}

fn secret(password: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "shop", "name": "db"},
        "data": {"password": password},
    })
}

fn written(before: Option<Value>, after: Option<Value>) -> ObjectChange {
    let id = ObjectId::of(after.as_ref().or(before.as_ref()).unwrap());
    ObjectChange { id, before, after }
}

fn constant_password() -> Scenario {
    let field = FieldPattern::parse("data.password").unwrap();
    let constant = vec![KindField {
        kind: "Secret".to_owned(),
        field,
    }];
    scenario(ScenarioRules {
        constant,
        ..ScenarioRules::default()
    })
}

#[test]
fn a_constant_field_may_be_set_once() {
    let mut judge = Judge::new(&constant_password(), None);
    judge.after_write(1, Some(&written(None, Some(secret("a")))), &Value::Null);
    judge.after_write(
        2,
        Some(&written(Some(secret("a")), Some(secret("a")))),
        &Value::Null,
    );
    judge.after_write(
        3,
        Some(&written(Some(secret("a")), Some(secret("b")))),
        &Value::Null,
    );
    judge.after_write(
        4,
        Some(&written(Some(secret("b")), Some(secret("c")))),
        &Value::Null,
    );
    let problems = judge.finish(Vec::new());
    let [
        Problem::ChangedConstant {
            field,
            before,
            after,
            ..
        },
    ] = problems.as_slice()
    else {
        panic!("{problems:?}");
    };
    assert_eq!(
        (field.as_str(), before, after),
        ("data.password", &json!("a"), &json!("b"))
    );
}

#[test]
fn a_deleted_object_that_the_operator_creates_again_keeps_its_constants() {
    let mut judge = Judge::new(&constant_password(), None);
    judge.after_write(1, Some(&written(None, Some(secret("a")))), &Value::Null);
    judge.after_write(2, Some(&written(Some(secret("a")), None)), &Value::Null);
    judge.after_write(3, Some(&written(None, Some(secret("b")))), &Value::Null);
    assert_eq!(judge.finish(Vec::new()).len(), 1);
    // A user who deletes the object asks for a new value.
    let mut judge = Judge::new(&constant_password(), None);
    judge.after_write(1, Some(&written(None, Some(secret("a")))), &Value::Null);
    judge.after_user(&ObjectId::of(&secret("a")));
    judge.after_write(2, Some(&written(None, Some(secret("b")))), &Value::Null);
    assert!(judge.finish(Vec::new()).is_empty());
}

fn list(objects: &ObjectMap) -> Value {
    objects.values().cloned().collect()
}

#[test]
fn a_rule_is_judged_after_each_write_or_at_the_end() {
    let one = || Rule::compile("at-most-one", "objects.size() <= 1").unwrap();
    let always = scenario(ScenarioRules {
        always: vec![one()],
        ..ScenarioRules::default()
    });
    let finally = scenario(ScenarioRules {
        finally: vec![one()],
        ..ScenarioRules::default()
    });
    let two = ObjectId::map([
        secret("a"),
        json!({"kind": "Pod", "metadata": {"name": "a"}}),
    ]);
    let all = list(&two);

    let mut judge = Judge::new(&always, None);
    assert!(judge.needs_objects());
    judge.after_write(3, None, &all);
    judge.after_write(4, None, &all);
    let problems = judge.finish(Vec::new());
    assert!(
        matches!(
            problems.as_slice(),
            [Problem::BrokenRule {
                after_write: Some(3),
                ..
            }]
        ),
        "{problems:?}"
    );

    let judge = Judge::new(&finally, None);
    assert!(!judge.needs_objects());
    assert!(
        judge
            .wrong_when_quiet(Some(0), &two, &two, || list(&two))
            .is_empty()
    );
    assert!(matches!(
        judge
            .wrong_when_quiet(None, &two, &two, || list(&two))
            .as_slice(),
        [Problem::BrokenRule {
            after_write: None,
            ..
        }]
    ));
}

/// EXPLORE-4: a world is compared with the reference of its own steps.
#[test]
fn each_quiet_step_is_compared_with_its_own_state() {
    let rules = scenario(ScenarioRules::default());
    let (first, last) = (ObjectId::map([secret("a")]), ObjectId::map([secret("b")]));
    let states = [first.clone(), last.clone()];
    let reference = Reference::learn(&rules, ReferencePoints::default(), &[&states]);
    let judge = Judge::new(&rules, Some(Arc::new(reference)));
    assert!(
        judge
            .wrong_when_quiet(Some(0), &first, &first, || list(&first))
            .is_empty()
    );
    assert!(
        judge
            .wrong_when_quiet(None, &last, &last, || list(&last))
            .is_empty()
    );
    let wrong = judge.wrong_when_quiet(Some(0), &last, &last, || list(&last));
    assert!(
        matches!(
            wrong.as_slice(),
            [Problem::WrongState {
                quiet_step: Some(0),
                ..
            }]
        ),
        "{wrong:?}"
    );
    assert_eq!(
        judge
            .wrong_when_quiet(None, &first, &first, || list(&first))
            .len(),
        1
    );
}

#[test]
fn nothing_may_remain_of_a_deleted_namespace() {
    let rules = scenario(ScenarioRules::default());
    let reference = Reference::learn(
        &rules,
        ReferencePoints::default(),
        &[&[ObjectId::map([secret("a")])]],
    );
    let mut judge = Judge::new(&rules, Some(Arc::new(reference)));
    judge.expect_no_namespace("shop");
    assert!(judge.is_over());
    let none = ObjectMap::new();
    assert!(
        judge
            .wrong_when_quiet(None, &none, &none, Value::default)
            .is_empty()
    );
    let one = ObjectId::map([secret("a")]);
    let left = judge.wrong_when_quiet(None, &one, &one, Value::default);
    assert!(matches!(left.as_slice(), [Problem::Leftovers(objects)] if objects.len() == 1));
}
