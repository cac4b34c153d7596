//! Machine: builds ConversionReviews, and reads the responses of conversion webhooks (upstream:
//! `apiextensions-apiserver/pkg/apiserver/conversion`).

use serde_json::{Map, Value, json};
use steersman_apimachinery::go;
use steersman_apimachinery::json::parse as parse_json;

use super::call::CallResponse;

use crate::values::text;

pub(crate) fn review(version: &str, uid: &str, to: &str, objects: &[&Value]) -> Value {
    json!({
        "kind": "ConversionReview",
        "apiVersion": format!("apiextensions.k8s.io/{version}"),
        "request": { "uid": uid, "desiredAPIVersion": to, "objects": objects },
    })
}

/// Returns the converted objects in a webhook's response. Fails with a message if the response is no valid
/// ConversionReview, or reports that the conversion failed.
pub(crate) fn converted(version: &str, answer: &CallResponse) -> Result<Vec<Value>, String> {
    let bytes = answer.body.as_ref().map_err(Clone::clone)?;
    let mut review = parse_json(bytes)
        .map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if version == "v1" && (api_version != "apiextensions.k8s.io/v1" || kind != "ConversionReview") {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(format!(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got {group}/{version}, Kind={kind}"
        ));
    }
    let response = review.get_mut("response");
    let Some(response) = response.filter(|response| response.is_object()) else {
        return Err("no response provided".to_owned());
    };
    let uid = text(&response["uid"]);
    if version == "v1" && uid != answer.uid {
        let (expected, uid) = (go::quote(&answer.uid), go::quote(uid));
        return Err(format!("expected response.uid={expected}, got {uid}"));
    }
    let status = text(&response["result"]["status"]);
    if status != "Success" {
        let message = text(&response["result"]["message"]);
        return Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message.to_owned()
        });
    }
    match response["convertedObjects"].take() {
        Value::Array(objects) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Checks an object that a webhook has converted (`at` is its number in the list), and restores its metadata from
/// `original`: a webhook may change only labels and annotations.
pub(crate) fn restored(
    original: &Value,
    mut converted: Value,
    to: &str,
    at: usize,
) -> Result<Value, String> {
    let invalid = |why: String| format!("returned invalid converted object at index {at}: {why}");
    let found = text(&converted["apiVersion"]);
    if found != to {
        let why = format!("invalid groupVersion (expected {to}, received {found})");
        return Err(invalid(why));
    }
    let (expected, found) = (text(&original["kind"]), text(&converted["kind"]));
    if expected != found {
        let why = format!("invalid kind (expected {expected}, received {found})");
        return Err(invalid(why));
    }
    let (before, after) = (&original["metadata"], &converted["metadata"]);
    for (field, named) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, found) = (text(&before[field]), text(&after[field]));
        if expected != found {
            return Err(invalid(format!(
                "must have the same {named}: {expected} != {found}"
            )));
        }
    }
    let metadata = restored_metadata(before, after)
        .map_err(|why| format!("returned invalid metadata in object at index {at}: {why}"))?;
    converted["metadata"] = metadata;
    Ok(converted)
}

fn restored_metadata(before: &Value, after: &Value) -> Result<Value, String> {
    let Value::Object(answered) = after else {
        return Err(if after.is_null() {
            "missing metadata in converted object".to_owned()
        } else {
            let found = go::type_of(after);
            format!("invalid metadata of type {found} in converted object")
        });
    };
    let mut metadata = before.as_object().cloned().unwrap_or_else(Map::new);
    for field in ["labels", "annotations"] {
        let members = match answered.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(members)) => members,
            Some(other) => {
                let found = go::type_of(other);
                return Err(format!(
                    "invalid metadata.{field} of type {found} in converted object"
                ));
            }
        };
        if let Some((key, value)) = members.iter().find(|(_, value)| !value.is_string()) {
            let found = go::type_of(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {found} in converted object"
            ));
        }
        metadata.insert(field.to_owned(), Value::Object(members.clone()));
    }
    Ok(Value::Object(metadata))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A webhook's response that is JSON but no review is refused in both versions of reviews, without a panic.
    #[test]
    fn an_answer_that_is_no_review_is_refused() {
        for body in ["[]", "[{}]", "7", "\"text\"", "null", "{\"response\": []}"] {
            let answer = CallResponse {
                uid: "u".to_owned(),
                body: Ok(body.into()),
            };
            let refused = converted("v1beta1", &answer).unwrap_err();
            assert_eq!(refused, "no response provided", "{body}");
            assert!(converted("v1", &answer).is_err(), "{body}");
        }
    }

    #[test]
    fn a_conversion_changes_labels_and_annotations_alone() {
        let original = json!({"apiVersion": "e.com/v1", "kind": "K",
            "metadata": {"name": "a", "uid": "u", "generation": 3, "labels": {"x": "1"}}});
        let mut converted = original.clone();
        converted["apiVersion"] = json!("e.com/v2");
        converted["metadata"]["generation"] = json!(9);
        converted["metadata"]["labels"] = json!({"y": "2"});
        converted["spec"] = json!({"new": true});
        let restored_one = restored(&original, converted.clone(), "e.com/v2", 0).unwrap();
        assert_eq!(restored_one["metadata"]["generation"], 3);
        assert_eq!(restored_one["metadata"]["labels"], json!({"y": "2"}));
        assert_eq!(restored_one["spec"], json!({"new": true}));
        for (path, value, why) in [
            (
                "/apiVersion",
                json!("e.com/v3"),
                "returned invalid converted object at index 0: invalid groupVersion (expected e.com/v2, received e.com/v3)",
            ),
            (
                "/kind",
                json!("L"),
                "returned invalid converted object at index 0: invalid kind (expected K, received L)",
            ),
            (
                "/metadata/name",
                json!("b"),
                "returned invalid converted object at index 0: must have the same name: a != b",
            ),
            (
                "/metadata/labels",
                json!({"y": 2}),
                "returned invalid metadata in object at index 0: metadata.labels[y] must be a string, but is int64 in converted object",
            ),
        ] {
            let mut wrong = converted.clone();
            *wrong.pointer_mut(path).unwrap() = value;
            assert_eq!(restored(&original, wrong, "e.com/v2", 0).unwrap_err(), why);
        }
    }
}
