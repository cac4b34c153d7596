//! Driver: makes an admission review of an input, and checks the response and its patch.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use json_patch::Patch;
use serde_json::{Map, Value, json};

use super::webhooks::{
    CHAIN, DEFAULTER, DYNAMIC_DEFAULTER, INDEX, LABEL, SiteChange, VALIDATOR, Webhooks, check_kind,
};
use crate::input::split;

const PATHS: [&str; 4] = [DEFAULTER, VALIDATOR, DYNAMIC_DEFAULTER, CHAIN];

const OPERATIONS: [&str; 4] = ["CREATE", "UPDATE", "DELETE", "CONNECT"];

/// Takes a byte that selects the webhook and the form of the input, a byte that selects the change of the defaulter, and
/// the body of an admission review or the objects of one.
pub(crate) fn reviews(input: &[u8]) {
    let [form, change, rest @ ..] = input else {
        return;
    };
    let change = match change % 4 {
        0 => SiteChange::SetFields,
        1 => SiteChange::InsertPage,
        2 => SiteChange::RemovePage,
        _ => SiteChange::ReversePages,
    };
    let webhooks = Webhooks::new(change);
    let form = usize::from(*form);
    let path = PATHS[form % 4];
    if (form / 4).is_multiple_of(2) {
        let (query, body) = split(rest, b"\n");
        let query = String::from_utf8_lossy(query);
        review(&webhooks, path, &query, body, change);
    } else {
        let operation = OPERATIONS[form / 8 % 4];
        let body = embedded(path, operation, (form / 32).is_multiple_of(2), rest);
        review(&webhooks, path, "timeout=10s", &body, change);
    }
}

/// Puts up to three parts, separated by empty lines, into a review: the object, the old object, the options.
fn embedded(path: &str, operation: &str, is_v1: bool, parts: &[u8]) -> Vec<u8> {
    let is_thing = path == DYNAMIC_DEFAULTER;
    let kind = if is_thing { "Thing" } else { "Site" };
    let version = if is_v1 { "v1" } else { "v1beta1" };
    let mut body = format!(
        r#"{{"apiVersion":"admission.k8s.io/{version}","kind":"AdmissionReview","request":{{"uid":"u-1",
        "kind":{{"group":"example.com","version":"v1","kind":"{kind}"}},
        "resource":{{"group":"example.com","version":"v1","resource":"any"}},"operation":"{operation}""#,
    )
    .into_bytes();
    let mut rest = parts;
    for name in ["object", "oldObject", "options"] {
        let (part, others) = split(rest, b"\n\n");
        rest = others;
        if !part.is_empty() {
            body.extend_from_slice(format!(",\"{name}\":").as_bytes());
            body.extend_from_slice(part);
        }
    }
    body.extend_from_slice(b"}}");
    body
}

/// Sends a review and checks the response (`ADMIT-1`, `ADMIT-2`).
fn review(webhooks: &Webhooks, path: &str, query: &str, body: &[u8], change: SiteChange) {
    let Some(answer) = webhooks.post(path, query, body) else {
        return;
    };
    let sent: Value = serde_json::from_slice(body).unwrap_or_default();
    let response = checked_response(&sent, &answer);
    let request = &sent["request"];
    if response["allowed"] != true {
        return;
    }
    let original = &request["object"];
    let mut patched = original.clone();
    if let Some(patch) = patch_of(response) {
        let result = json_patch::patch(&mut patched, &patch);
        assert!(result.is_ok(), "the patch cannot be applied: {answer}");
    }
    let writes = request["operation"] == "CREATE" || request["operation"] == "UPDATE";
    let expected = match path {
        VALIDATOR => original.clone(),
        // The chain replaces the object by the options.
        CHAIN => request["options"].clone(),
        _ if !writes => original.clone(),
        DYNAMIC_DEFAULTER => {
            let mut expected = original.clone();
            label(&mut expected);
            expected
        }
        _ => match changed(original, &patched, change) {
            Some(expected) => expected,
            None => return,
        },
    };
    assert_eq!(patched, expected, "the patch of {path} for {original}");
    let is_idempotent = matches!(change, SiteChange::SetFields | SiteChange::InsertPage);
    if writes && (path == DYNAMIC_DEFAULTER || path == DEFAULTER && is_idempotent) {
        let mut again = sent.clone();
        again["request"]["object"] = patched;
        let answer = webhooks.post(path, query, again.to_string().as_bytes());
        let answer = answer.unwrap_or_default();
        let response = checked_response(&again, &answer);
        assert_eq!(response["allowed"], true, "{answer}");
        assert_eq!(patch_of(response), None, "{path} changed its own result");
    }
}

/// Checks the form of a response, and returns the decision.
fn checked_response<'a>(sent: &Value, answer: &'a Value) -> &'a Value {
    let response = &answer["response"];
    check_kind(sent, answer, "admission.k8s.io", "AdmissionReview");
    let uid = sent["request"]["uid"].as_str().unwrap_or_default();
    assert_eq!(response["uid"], uid, "{answer}");
    assert!(response["allowed"].is_boolean(), "{answer}");
    if response["allowed"] == false {
        let status = &response["status"];
        let code = status["code"].as_u64().unwrap_or_default();
        // No webhook of the target fails, so a code of 5xx is a panic or a patch that cannot be applied.
        assert!((400..500).contains(&code), "{answer}");
        let message = status["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{answer}");
        assert!(response["patch"].is_null(), "{answer}");
    }
    response
}

fn patch_of(response: &Value) -> Option<Patch> {
    let encoded = response["patch"].as_str()?;
    assert_eq!(response["patchType"], "JSONPatch", "{response}");
    let decoded = STANDARD.decode(encoded).ok();
    let patch = decoded.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    assert!(patch.is_some(), "no JSON patch: {response}");
    patch
}

/// Makes the change of the defaulter of sites in JSON: all other members are as they arrived. Returns `None` if the
/// parts of the object are lists of fields, which serde reads as structs.
fn changed(original: &Value, patched: &Value, change: SiteChange) -> Option<Value> {
    let mut expected = original.clone();
    if !original["spec"].is_object() || !original["metadata"].is_object() {
        return None;
    }
    if change == SiteChange::SetFields {
        label(&mut expected);
    }
    let spec = expected["spec"].as_object_mut()?;
    match change {
        SiteChange::SetFields => {
            set(spec, "replicas", json!(2));
            let headers = spec.entry("headers").or_insert_with(|| json!({}));
            // Null is a value of a header.
            let headers = headers.as_object_mut()?;
            headers.entry("x").or_insert_with(|| json!("1"));
            for page in spec.get_mut("pages").into_iter().flat_map(elements) {
                set(page.as_object_mut()?, "title", json!("untitled"));
            }
        }
        SiteChange::InsertPage => {
            let pages = spec.entry("pages").or_insert_with(|| json!([]));
            let pages = pages.as_array_mut()?;
            if pages.iter().any(|page| name_of(page) == Some(INDEX)) {
                return Some(original.clone());
            }
            pages.insert(0, json!({"name": INDEX, "title": null}));
        }
        SiteChange::RemovePage | SiteChange::ReversePages => {
            if let Some(pages) = spec.get_mut("pages").and_then(Value::as_array_mut) {
                let mut names: Vec<_> = pages.iter().map(name_of).collect();
                names.sort_unstable();
                names.dedup();
                if names.len() < pages.len() || names.contains(&None) {
                    // Pages of one name cannot be told apart: only the other members are compared.
                    spec.insert("pages".to_owned(), patched["spec"]["pages"].clone());
                } else if change == SiteChange::ReversePages {
                    pages.reverse();
                } else {
                    pages.drain(..pages.len().min(1));
                }
            }
        }
    }
    Some(expected)
}

fn elements(list: &mut Value) -> impl Iterator<Item = &mut Value> {
    list.as_array_mut().into_iter().flatten()
}

/// Returns the name of a page, also of a page that is a list of its fields.
fn name_of(page: &Value) -> Option<&str> {
    page.get("name").or_else(|| page.get(0))?.as_str()
}

/// Sets a member that is absent or null.
fn set(object: &mut Map<String, Value>, name: &str, value: Value) {
    let member = object.entry(name).or_insert(Value::Null);
    if member.is_null() {
        *member = value;
    }
}

/// Sets the label of the defaulters.
fn label(object: &mut Value) {
    let metadata = &mut object["metadata"];
    if metadata.is_null() {
        *metadata = json!({});
    }
    if metadata["labels"].is_null() {
        metadata["labels"] = json!({});
    }
    metadata["labels"][LABEL.0] = json!(LABEL.1);
}
