//! Machine: the match conditions of a webhook, which say in CEL what it is asked about.
//!
//! Kubernetes source: `apiserver/pkg/admission/plugin/webhook/matchconditions`.

use serde_json::Value as Json;

use crate::schema::cel::{CALL_LIMIT, Environment, Failure, REQUEST, Type, Value};
use crate::webhook::Hook;

/// Whether all conditions of a webhook hold for the `request` of a review.
///
/// One that is false decides, whatever became of the others. A condition that asks the authorizer
/// counts as true: the webhook is rather asked too often.
///
/// # Errors
/// What went wrong with the others, where that does not let the request pass.
pub(super) fn hold(hook: &Hook, request: &Json) -> Result<bool, String> {
    let mut wrong = Vec::new();
    for expression in &hook.conditions {
        match holds(expression, request) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => wrong.push(why),
        }
    }
    match wrong.as_slice() {
        [] => Ok(true),
        _ if hook.ignores_failure => Ok(false),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

fn holds(expression: &str, request: &Json) -> Result<bool, String> {
    let program = Environment::new(false, true)
        .compile(expression, &[Type::Bool])
        .map_err(|why| format!("compilation error: {why}"))?;
    if program.uses("authorizer") {
        return Ok(true);
    }
    let failed = |why: &str| format!("expression '{expression}' resulted in error: {why}");
    let value = |json, decl| Value::of(json, decl).map_err(|why| failed(&why));
    let values = [
        ("object", value(&request["object"], None)?),
        ("oldObject", value(&request["oldObject"], None)?),
        ("request", value(request, Some(&REQUEST))?),
        ("namespaceObject", Value::Null),
    ];
    match program.run(&values, CALL_LIMIT).0 {
        Ok(Value::Bool(holds)) => Ok(holds),
        Ok(_) => Err(failed("the value is no bool")),
        Err(Failure::Error(why)) => Err(failed(&why)),
        Err(Failure::Limit) => Err(failed("operation cancelled: actual cost limit exceeded")),
    }
}
