//! Machine: builds AdmissionReviews, and reads the responses of admission webhooks.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;
use steersman_apimachinery::go;
use steersman_apimachinery::json::parse as parse_json;
use steersman_apimachinery::status::{Details, Status};
use steersman_schema::resource::Resource;
use steersman_schema::types::type_name;

use super::call::CallResponse;

use crate::values::{text, texts};

/// The `request` of an AdmissionReview, without its uid.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReviewRequest<'a> {
    /// The kind of the objects in the review, in the version that the webhook's rule names.
    pub(crate) kind: KindName<'a>,
    /// The resource, in the version that the webhook's rule names.
    pub(crate) resource: ResourceName<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) sub_resource: &'a str,
    pub(crate) request_kind: KindName<'a>,
    pub(crate) request_resource: ResourceName<'a>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) request_sub_resource: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) name: &'a str,
    /// The namespace of the request; for a Namespace object, its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) namespace: String,
    pub(crate) operation: &'static str,
    pub(crate) user_info: Value,
    pub(crate) object: Option<Cow<'a, Value>>,
    pub(crate) old_object: Option<Cow<'a, Value>>,
    pub(crate) dry_run: bool,
    pub(crate) options: &'a Value,
}

#[derive(Debug, Serialize)]
pub(crate) struct KindName<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
}

#[derive(Debug, Serialize)]
pub(crate) struct ResourceName<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) resource: &'a str,
}

#[derive(Debug)]
pub(crate) struct WebhookDecision {
    /// The `Status` with which the webhook refuses the write; `None` if the webhook allows the write.
    pub(crate) refusal: Option<Box<Status>>,
    /// The operations of the JSON patch in the webhook's response; empty if the response has no patch.
    pub(crate) patch: Vec<Value>,
    pub(crate) warnings: Vec<String>,
}

impl<'a> KindName<'a> {
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self {
            group: &resource.group,
            version: &resource.version,
            kind: &resource.kind,
        }
    }
}

impl<'a> ResourceName<'a> {
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self {
            group: &resource.group,
            version: &resource.version,
            resource: &resource.plural,
        }
    }
}

impl ReviewRequest<'_> {
    // Never falls back to the default: serialising fails only for map keys that are not strings and for types that
    // return errors, and a review has neither.

    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// Returns the JSON of an AdmissionReview with this uid. `request` is the JSON of a [`ReviewRequest`].
pub(crate) fn body(version: &str, uid: &str, request: &str) -> Bytes {
    let fields = request.trim_start_matches('{');
    let review = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/{version}","request":{{"uid":"{uid}",{fields}}}"#
    );
    review.into()
}

/// Reads the response of the webhook `name`. Fails with a message for an invalid response: the call has then failed.
pub(crate) fn read(
    name: &str,
    version: &str,
    mutating: bool,
    answer: &CallResponse,
) -> Result<WebhookDecision, String> {
    const UNREAD: &str = "failed to call webhook: couldn't get version/kind; json parse error";
    let bytes = answer
        .body
        .as_ref()
        .map_err(|why| format!("failed to call webhook: {why}"))?;
    let review = parse_json(bytes).map_err(|why| format!("{UNREAD}: {why}"))?;
    if !review.is_object() {
        let found = type_name(&review);
        return Err(format!(
            "{UNREAD}: json: cannot unmarshal {found} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}"
        ));
    }
    check(&review, version, mutating, &answer.uid)
        .map_err(|why| format!("received invalid webhook response: {why}"))?;
    let response = &review["response"];
    let warnings = texts(&response["warnings"]).map(str::to_owned);
    let mut decision = WebhookDecision {
        refusal: None,
        patch: Vec::new(),
        warnings: warnings.collect(),
    };
    if response["allowed"] != true {
        decision.refusal = Some(Box::new(denied(name, &response["status"])));
    } else if mutating {
        decision.patch = patch_of(response)?;
    }
    Ok(decision)
}

fn check(review: &Value, version: &str, mutating: bool, uid: &str) -> Result<(), String> {
    let response = &review["response"];
    if !response.is_object() {
        return Err("webhook response was absent".to_owned());
    }
    // As upstream, neither uid nor kind nor patchType of a v1beta1 response is checked.
    if version != "v1" {
        return Ok(());
    }
    let found = text(&response["uid"]);
    if found != uid {
        let (uid, found) = (go::quote(uid), go::quote(found));
        return Err(format!("expected response.uid={uid}, got {found}"));
    }
    let (api_version, kind) = (text(&review["apiVersion"]), text(&review["kind"]));
    if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        return Err(format!(
            "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got {group}/{version}, Kind={kind}"
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
    let patch = text(&response["patch"]);
    if patch.is_empty() {
        return Ok(Vec::new());
    }
    let kind = response["patchType"].as_str().unwrap_or("JSONPatch");
    if kind != "JSONPatch" {
        return Err(format!("unsupported patch type {}", go::quote(kind)));
    }
    let undecodable =
        |why: String| format!("received undecodable patch in webhook response: {why}");
    let bytes = STANDARD
        .decode(patch)
        .map_err(|_| "failed to call webhook: illegal base64 data at input byte 0".to_owned())?;
    match parse_json(&bytes).map_err(undecodable)? {
        Value::Array(operations) => Ok(operations),
        Value::Null => Ok(Vec::new()),
        other => Err(undecodable(format!(
            "json: cannot unmarshal {} into Go value of type jsonpatch.Patch",
            type_name(&other)
        ))),
    }
}

fn denied(name: &str, status: &Value) -> Status {
    let by = format!("admission webhook \"{name}\" denied the request");
    let reason = text(&status["reason"]);
    let message = match (text(&status["message"]), reason) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    // A refusal must not have a status code of success: an absent code, or a code below 400, becomes 400.
    let code = status["code"].as_u64().unwrap_or_default();
    let code = u16::try_from(code).unwrap_or_default().max(400);
    let mut refusal = Status::failure(code, reason, message);
    if let Ok(details) = serde_json::from_value::<Details>(status["details"].clone()) {
        refusal = refusal.with_details(details);
    }
    refusal
}

#[cfg(test)]
mod tests;
