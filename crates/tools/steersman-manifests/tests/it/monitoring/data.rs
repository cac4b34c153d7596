//! Tests that the queries of the dashboard find data in the recordings.

use serde_json::{Value, json};

use super::dashboard::{dashboard, queries};
use super::promtool::{Evaluation, FIRST, evaluate, inputs};
use super::recording::{SHARDED, TROUBLED};

#[test]
fn every_query_finds_data() {
    let mut inputs = inputs(&TROUBLED, FIRST);
    inputs.extend(super::promtool::inputs(&SHARDED, "sites-1"));
    let expected = queries(&dashboard()).into_iter();
    // `absent` has no sample if its expression has one.
    let expected = expected.map(|query| (format!("absent({query})"), json!([])));
    let evaluation = Evaluation {
        name: "dashboard".to_owned(),
        inputs,
        expected: expected.collect(),
    };
    let no_rules: Value = json!({"groups": []});
    if let Some(complaints) = evaluate(&no_rules, &[evaluation]) {
        assert_eq!(complaints, "");
    }
}
