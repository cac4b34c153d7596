//! Machine: reads a ConversionReview, converts its objects in order, and writes the response.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};
use steersman_object::panic_text;

use super::versions::Conversions;

const GROUP: &str = "apiextensions.k8s.io";
const GROUP_V1: &str = "apiextensions.k8s.io/v1";
const GROUP_V1_BETA_1: &str = "apiextensions.k8s.io/v1beta1";

/// Returns the response to a review. One object that cannot be converted fails the whole review (CONV-1), and the
/// message, which is also the second result, names the object.
pub(crate) fn answer(conversions: &Conversions, body: &[u8]) -> (Value, Option<String>) {
    let review: Value = match serde_json::from_slice(body) {
        Ok(review) => review,
        Err(error) => return failed(GROUP_V1, "", format!("the body is not JSON: {error}")),
    };
    let uid = review["request"]["uid"].as_str().unwrap_or_default();
    let api_version = match review["apiVersion"].as_str() {
        Some(GROUP_V1) => GROUP_V1,
        Some(GROUP_V1_BETA_1) => GROUP_V1_BETA_1,
        _ => {
            let found = &review["apiVersion"];
            let text =
                format!("apiVersion is {found}: this webhook answers {GROUP}/v1 and v1beta1");
            return failed(GROUP_V1, uid, text);
        }
    };
    let fails = |text: &str| failed(api_version, uid, text.to_owned());
    if review["kind"] != "ConversionReview" {
        return fails("the body is no ConversionReview");
    }
    if uid.is_empty() {
        return fails("the review has no uid");
    }
    let request = &review["request"];
    let Some(to) = request["desiredAPIVersion"].as_str() else {
        return fails("the review has no desiredAPIVersion");
    };
    let Some(objects) = request["objects"].as_array() else {
        return fails("the review has no objects");
    };
    let mut converted = Vec::with_capacity(objects.len());
    for (at, object) in objects.iter().enumerate() {
        // A panic in a conversion fails only its own review.
        let result = catch_unwind(AssertUnwindSafe(|| conversions.convert(object, to)));
        let problem = match result {
            Ok(Ok(object)) => {
                converted.push(object);
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(payload) => format!("its conversion panicked: {}", panic_text(&*payload)),
        };
        let text = format!("object {at} ({}): {problem}", named(object));
        return failed(api_version, uid, text);
    }
    let result = json!({"status": "Success"});
    (response(api_version, uid, &result, &converted), None)
}

fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let metadata = &object["metadata"];
    let (kind, name) = (text(&object["kind"]), text(&metadata["name"]));
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

fn failed(api_version: &str, uid: &str, message: String) -> (Value, Option<String>) {
    let result =
        json!({"status": "Failure", "message": message, "reason": "BadRequest", "code": 400});
    (response(api_version, uid, &result, &[]), Some(message))
}

fn response(api_version: &str, uid: &str, result: &Value, converted: &[Value]) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": "ConversionReview",
        "response": {"uid": uid, "result": result, "convertedObjects": converted},
    })
}
