//! Tests of types, estimates, costs and values, against those recorded from Kubernetes for the same expressions.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::library;
use crate::program::{CALL_LIMIT, Program};
use crate::run::EvalFailure;
use crate::structural::Structural;
use crate::types::Decl;
use crate::value::Value;

const RECORDED: &str = include_str!("recorded.txt");

/// The functions for policies only: rules of CRDs have no variables of the types that these functions need.
const OF_POLICIES: &[&str] = &[
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name",
    "fieldSelector", "labelSelector", "check", "allowed", "reason", "errored", "error",
    "jsonpatch.escapeKey",
];

fn cases() -> impl Iterator<Item = Json> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| serde_json::from_str(line).unwrap())
}

#[test]
fn expressions_have_the_estimates_costs_and_values_of_upstream() {
    let mut wrong = Vec::new();
    let (mut context, mut decl) = (Json::Null, None);
    for case in cases() {
        if case.is_object() {
            let schema = Structural::compile(&case["schema"]);
            decl = Decl::of(&schema, false, "selfType").map(Arc::new);
            context = case;
            continue;
        }
        let found = answer(&case, &context["object"], decl.as_ref().unwrap());
        if found != case {
            wrong.push(format!("wanted {case}\n found {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cases().count() > 900);
}

fn answer(case: &Json, object: &Json, decl: &Arc<Decl>) -> Json {
    let source = case[0].as_str().unwrap();
    let variables = [("self", decl.kind.clone()), ("oldSelf", decl.kind.clone())];
    let program = match Program::compile(source, &variables) {
        Ok(program) => program,
        Err(why) => return serde_json::json!([source, why.to_string()]),
    };
    let this = Value::of(object, Some(decl)).unwrap();
    let values = [("self", this.clone()), ("oldSelf", this)];
    let (outcome, cost) = program.run(&values, CALL_LIMIT);
    let (cost, value) = match outcome {
        Ok(value) => (Some(cost), shown(&value)),
        Err(EvalFailure::Error(why)) => (None, format!("error: {why}")),
        Err(EvalFailure::Limit) => (None, "error: limit".to_owned()),
    };
    let (kind, worst) = (program.result().to_string(), program.worst_cost(decl));
    serde_json::json!([source, kind, worst, cost, value])
}

fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => format!("{number}u"),
        Value::Double(number) => format!("double({number})"),
        Value::Text(text) => Json::from(&**text).to_string(),
        Value::Bytes(bytes) => format!("b{:?}", String::from_utf8_lossy(bytes)),
        Value::Optional(None) => "optional.none()".to_owned(),
        Value::Optional(Some(held)) => format!("optional.of({})", shown(held)),
        list if list.is_list() => {
            let items: Vec<String> = list.items().unwrap().iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        map if map.is_map() => {
            let mut entries: Vec<String> = Vec::new();
            for key in map.keys() {
                let value = map.member(&key).unwrap().unwrap();
                entries.push(format!("{}: {}", shown(&key.value()), shown(&value)));
            }
            entries.sort();
            format!("{{{}}}", entries.join(", "))
        }
        other => other.type_name().to_owned(),
    }
}

#[test]
fn every_function_has_a_recorded_answer() {
    let sources: Vec<String> = cases()
        .filter_map(|case| case[0].as_str().map(str::to_owned))
        .collect();
    let sources = sources.join("\n");
    for name in library::names() {
        let is_operator = name.starts_with(['_', '@', '!', '-']) || name.starts_with("cel.@");
        if is_operator || OF_POLICIES.contains(&name) {
            continue;
        }
        assert!(sources.contains(&format!("{name}(")), "{name}");
    }
}
