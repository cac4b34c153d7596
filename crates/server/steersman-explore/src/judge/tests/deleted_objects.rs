//! Tests of constants of objects that were deleted.

use serde_json::json;

use super::super::*;
use crate::field_pattern::FieldPattern;
use crate::scenario::{KindField, ScenarioRules};

fn judge() -> Judge {
    let field = FieldPattern::parse("data.password").unwrap();
    let kind = "Secret".to_owned();
    let rules = ScenarioRules {
        constant: vec![KindField { kind, field }],
        ..ScenarioRules::default()
    };
    let scenario = Scenario {
        initial: Vec::new().into(),
        steps: Vec::new().into(),
        rules: Arc::new(rules),
    };
    Judge::new(&scenario, None)
}

fn secret(uid: &str, password: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "default", "name": "a", "uid": uid},
        "data": {"password": password},
    })
}

fn problems(changes: &[(Option<Value>, Option<Value>)]) -> Vec<Problem> {
    let mut judge = judge();
    for (number, (before, after)) in changes.iter().enumerate() {
        let of = after.as_ref().or(before.as_ref()).unwrap();
        let change = ObjectChange {
            id: ObjectId::of(of),
            before: before.clone(),
            after: after.clone(),
        };
        judge.after_write(number + 1, Some(&change), &Value::Null);
    }
    judge.finish(Vec::new())
}

#[test]
fn a_constant_of_an_object_that_the_garbage_collector_deleted_may_be_set_anew() {
    let created = (None, Some(secret("1", "old")));
    let again = (None, Some(secret("2", "new")));
    assert_eq!(problems(&[created, again]), []);
}

#[test]
fn an_operator_that_deletes_and_creates_an_object_changes_its_constants() {
    let created = (None, Some(secret("1", "old")));
    let deleted = (Some(secret("1", "old")), None);
    let again = (None, Some(secret("2", "new")));
    let found = problems(&[created, deleted, again]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].kind(), "changed-constant");
    let changed = (Some(secret("1", "old")), Some(secret("1", "new")));
    let created = (None, Some(secret("1", "old")));
    assert_eq!(problems(&[created, changed]).len(), 1);
}
