//! Driver: makes a conversion review of an input, and checks the response and the way back.

use serde_json::{Value, json};
use steersman_object::json_text;

use super::webhooks::{self, SiteChange, Webhooks};

const PATH: &str = "/convert";

const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The prefix of the annotations with the fields that another version cannot hold.
const KEPT_FIELDS: &str = "example.com/fields-of-";

/// The host that is set in another version.
const HOST: &str = "changed.example.com";

/// Takes a byte that selects the form of the input, a byte that selects the versions, and the body of a conversion
/// review or an object.
pub(crate) fn conversions(input: &[u8]) {
    let [form, versions, rest @ ..] = input else {
        return;
    };
    let webhooks = Webhooks::new(SiteChange::SetFields);
    let versions = usize::from(*versions);
    let version = |divisor: usize| VERSIONS[versions / divisor % 3];
    match form % 3 {
        0 => {
            review(&webhooks, rest);
        }
        1 => {
            let desired = version(1);
            let mut body = format!(
                r#"{{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview","request":{{"uid":"u-1",
                "desiredAPIVersion":"example.com/{desired}","objects":["#
            )
            .into_bytes();
            body.extend_from_slice(rest);
            body.extend_from_slice(b"]}}");
            review(&webhooks, &body);
        }
        _ => {
            let Ok(mut object @ Value::Object(_)) = serde_json::from_slice(rest) else {
                return;
            };
            object["apiVersion"] = json!(format!("example.com/{}", version(1)));
            object["kind"] = json!("Shop");
            there_and_back(&webhooks, &object, &[version(3), version(9)]);
        }
    }
}

/// Converts an object to other versions one after the other, and back (`CONV-2`).
fn there_and_back(webhooks: &Webhooks, original: &Value, way: &[&str]) {
    let home = json_text(&original["apiVersion"]);
    let mut object = original.clone();
    for version in way {
        let Some(next) = convert(webhooks, &object, &format!("example.com/{version}")) else {
            break;
        };
        object = next;
    }
    if object["apiVersion"] == home {
        check_same(original, &object);
        return;
    }
    let back = convert(webhooks, &object, home);
    let back = back.unwrap_or_else(|| panic!("no way back from {object}"));
    check_same(original, &back);
    // A change in the other version is the only change in the object.
    let host = |object: &Value| match object["apiVersion"].as_str() {
        Some("example.com/v1alpha1") => "domain",
        _ => "host",
    };
    if !original["spec"].is_object() || !object["spec"].is_object() {
        return;
    }
    let (there, here) = (host(&object), host(original));
    object["spec"][there] = json!(HOST);
    let back = convert(webhooks, &object, home);
    let back = back.unwrap_or_else(|| panic!("no way back from the changed {object}"));
    let mut expected = original.clone();
    expected["spec"][here] = json!(HOST);
    check_same(&expected, &back);
}

/// Converts one object with another one; `None` if it is refused.
fn convert(webhooks: &Webhooks, object: &Value, desired: &str) -> Option<Value> {
    let second = json!({
        "apiVersion": "example.com/v1alpha1", "kind": "Shop", "metadata": {"name": "second"},
        "spec": {"domain": "second.example.com"},
    });
    let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {
        "uid": "u-1", "desiredAPIVersion": desired, "objects": [object, second],
    }});
    let mut converted = review(webhooks, body.to_string().as_bytes())?;
    assert_eq!(converted[1]["metadata"], second["metadata"]);
    Some(converted[0].take())
}

/// Sends a review, and returns the converted objects; `None` if the review is refused (`CONV-1`).
fn review(webhooks: &Webhooks, body: &[u8]) -> Option<Vec<Value>> {
    let mut answer = webhooks.post(PATH, "", body)?;
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    webhooks::check_kind(&sent, &answer, "apiextensions.k8s.io", "ConversionReview");
    let request = &sent["request"];
    let [own, asked] = [&answer["response"]["uid"], &request["uid"]].map(json_text);
    assert_eq!(own, asked);
    let result = &answer["response"]["result"];
    if result["status"] != "Success" {
        assert_eq!(result["status"], "Failure", "{answer}");
        let message = json_text(&result["message"]);
        assert!(!message.is_empty(), "{answer}");
        // No conversion of the target panics.
        assert!(!message.contains("its conversion panicked"), "{answer}");
        assert_eq!(answer["response"]["convertedObjects"], json!([]));
        return None;
    }
    let converted = answer["response"]["convertedObjects"].take();
    let (Value::Array(converted), Some(objects)) = (converted, request["objects"].as_array())
    else {
        panic!("no list of objects: {answer}");
    };
    assert_eq!(converted.len(), objects.len());
    for (object, original) in converted.iter().zip(objects) {
        assert_eq!(object["apiVersion"], request["desiredAPIVersion"]);
        assert_eq!(object["kind"], original["kind"]);
        assert_eq!(metadata(object), metadata(original));
    }
    Some(converted)
}

/// Checks that an object is what it was: its typed form is the same, and it has all members that it had.
fn check_same(original: &Value, back: &Value) {
    assert_eq!(back["apiVersion"], original["apiVersion"]);
    assert_eq!(metadata(back), metadata(original));
    let conversions = webhooks::conversions();
    let bare = |object: &Value| {
        let mut object = object.clone();
        object["metadata"] = json!({});
        object
    };
    let (original, back) = (bare(original), bare(back));
    // An object that no type can read is converted to its own version alone.
    if let Ok(typed) = conversions.encoded(&original) {
        let found = conversions.encoded(&back);
        assert_eq!(found, Ok(typed), "{back} was {original}");
    }
    assert!(has_members(&back, &original), "{back} was {original}");
}

/// Returns the metadata without the annotations of conversions, and without an empty list of annotations.
fn metadata(object: &Value) -> Value {
    let mut metadata = object["metadata"].clone();
    if let Some(members) = metadata.as_object_mut() {
        if let Some(Value::Object(annotations)) = members.get_mut("annotations") {
            annotations.retain(|name, _| !name.starts_with(KEPT_FIELDS));
        }
        members.retain(|name, value| name != "annotations" || *value != json!({}));
    }
    metadata
}

/// Returns whether a value has all that another one has. A member that is null counts as absent.
fn has_members(value: &Value, other: &Value) -> bool {
    match (value, other) {
        (Value::Object(_), Value::Object(other)) => other
            .iter()
            .all(|(name, other)| other.is_null() || has_members(&value[name], other)),
        (Value::Array(value), Value::Array(other)) => {
            let mut pairs = value.iter().zip(other);
            value.len() == other.len() && pairs.all(|(value, other)| has_members(value, other))
        }
        (value, other) => value == other,
    }
}
