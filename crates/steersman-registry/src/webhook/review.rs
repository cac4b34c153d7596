//! Machine: writes an AdmissionReview, and reads the answer.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use steersman_text::go;
use steersman_text::json::parse as parse_json;
use steersman_text::status::{Details, Status};

use crate::auth::User;

use super::call::CallResponse;

/// The content of a review's request. Kinds and resources are `(group, version, name)`.
#[derive(Debug)]
pub struct ReviewContent<'a> {
    /// The kind in which the objects are sent.
    pub kind: (&'a str, &'a str, &'a str),
    /// The resource that the webhook's rule matched.
    pub resource: (&'a str, &'a str, &'a str),
    /// The kind of the request.
    pub request_kind: (&'a str, &'a str, &'a str),
    /// The resource of the request.
    pub request_resource: (&'a str, &'a str, &'a str),
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The name, if the request has one.
    pub name: &'a str,
    /// The namespace; for a Namespace object its own name.
    pub namespace: &'a str,
    /// The operation, for instance `CREATE`.
    pub operation: &'static str,
    /// The user of the request.
    pub user: &'a User,
    /// The object after the operation.
    pub object: Option<&'a Value>,
    /// The object before the operation.
    pub old: Option<&'a Value>,
    /// Whether it is a dry run.
    pub dry: bool,
    /// The options of the operation.
    pub options: &'a Value,
}

/// The decision of a webhook.
#[derive(Debug)]
pub struct Verdict {
    /// The refusal, if the webhook does not allow the request.
    pub refusal: Option<Box<Status>>,
    /// The operations of a JSON patch; empty for none.
    pub patch: Vec<Value>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// Builds the `request` of a review, without its uid.
pub fn request(about: &ReviewContent<'_>) -> Map<String, Value> {
    let named = |(group, version, name): (&str, &str, &str), what: &str| {
        let mut named = Map::new();
        named.insert("group".to_owned(), json!(group));
        named.insert("version".to_owned(), json!(version));
        named.insert(what.to_owned(), json!(name));
        Value::Object(named)
    };
    let mut request = Map::new();
    let mut put = |field: &str, value: Value| {
        request.insert(field.to_owned(), value);
    };
    put("kind", named(about.kind, "kind"));
    put("resource", named(about.resource, "resource"));
    put("requestKind", named(about.request_kind, "kind"));
    let resource = named(about.request_resource, "resource");
    put("requestResource", resource);
    for (field, text) in [
        ("subResource", about.subresource),
        ("requestSubResource", about.subresource),
        ("name", about.name),
        ("namespace", about.namespace),
    ] {
        if !text.is_empty() {
            put(field, json!(text));
        }
    }
    put("operation", json!(about.operation));
    put("userInfo", about.user.info());
    put("object", about.object.cloned().unwrap_or_default());
    put("oldObject", about.old.cloned().unwrap_or_default());
    put("dryRun", json!(about.dry));
    put("options", about.options.clone());
    request
}

/// Reads the answer of the webhook with this name.
///
/// # Errors
/// Fails with the reason why the answer counts as a failed call.
pub fn read(
    name: &str,
    version: &str,
    mutating: bool,
    answer: &CallResponse,
) -> Result<Verdict, String> {
    let call = |why: &str| format!("failed to call webhook: {why}");
    let bytes = answer.body.as_ref().map_err(|why| call(why))?;
    let review = parse_json(bytes).map_err(|why| {
        call(&format!(
            "couldn't get version/kind; json parse error: {why}"
        ))
    })?;
    if !review.is_object() {
        let found = steersman_schema::validate::type_name(&review);
        return Err(call(&format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        )));
    }
    check(&review, version, mutating, &answer.uid)
        .map_err(|why| format!("received invalid webhook response: {why}"))?;
    let response = &review["response"];
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(str::to_owned);
    let mut verdict = Verdict {
        refusal: None,
        patch: Vec::new(),
        warnings: warnings.collect(),
    };
    if response["allowed"] != true {
        verdict.refusal = Some(Box::new(denied(name, &response["status"])));
    } else if mutating {
        verdict.patch = patch_of(response)?;
    }
    Ok(verdict)
}

fn check(review: &Value, version: &str, mutating: bool, uid: &str) -> Result<(), String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    // In v1beta1 neither uid nor kind nor patchType is checked.
    if version != "v1" {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = text(&response["uid"]);
    if found != uid {
        let (uid, found) = (go::quote(uid), go::quote(&found));
        return Err(format!("expected response.uid={uid}, got {found}"));
    }
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        let named = match api_version.split_once('/') {
            Some((group, version)) => format!("{group}/{version}"),
            None => format!("/{api_version}"),
        };
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {named}, Kind={kind}"
        ));
    }
    let patch = !text(&response["patch"]).is_empty();
    let typed = !response["patchType"].is_null();
    let why = match (mutating, patch, typed) {
        (true, true, false) => "webhook returned response.patch but not response.patchType",
        (true, false, true) => "webhook returned response.patchType but not response.patch",
        (true, true, true) if text(&response["patchType"]).is_empty() => {
            "webhook returned invalid response.patchType of \"\""
        }
        (false, true, _) => "validating webhook may not return response.patch",
        (false, false, true) => "validating webhook may not return response.patchType",
        _ => return Ok(()),
    };
    Err(why.to_owned())
}

fn patch_of(response: &Value) -> Result<Vec<Value>, String> {
    let text = response["patch"].as_str().unwrap_or_default();
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let kind = response["patchType"].as_str().unwrap_or("JSONPatch");
    if kind != "JSONPatch" {
        return Err(format!("unsupported patch type {}", go::quote(kind)));
    }
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD
        .decode(text)
        .map_err(|_| "failed to call webhook: illegal base64 data at input byte 0".to_owned())?;
    match parse_json(&bytes).map_err(undecodable)? {
        Value::Array(operations) => Ok(operations),
        Value::Null => Ok(Vec::new()),
        other => Err(undecodable(format!(
            "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
            steersman_schema::validate::type_name(&other)
        ))),
    }
}

/// Builds the refusal of a webhook from the `status` of its response.
fn denied(name: &str, status: &Value) -> Status {
    let text = |field: &str| status[field].as_str().unwrap_or_default();
    let by = format!("admission webhook \"{name}\" denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    // A refusal must not have the code of a success.
    let code = status["code"].as_u64().unwrap_or_default();
    let code = u16::try_from(code).unwrap_or_default().max(400);
    let mut refusal = Status::failure(code, text("reason"), message);
    if let Ok(details) = serde_json::from_value::<Details>(status["details"].clone()) {
        refusal = refusal.with_details(details);
    }
    refusal
}

#[cfg(test)]
mod tests;
