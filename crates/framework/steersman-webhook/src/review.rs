//! Machine: reads an AdmissionReview, and writes its response in the version of the request.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::request::AdmissionRequest;
use crate::response::AdmissionResponse;

#[derive(Debug)]
pub(crate) struct Review {
    /// The `apiVersion` of the review. The response repeats it.
    pub(crate) version: &'static str,
    pub(crate) request: AdmissionRequest,
}

/// The problem of a body that is no valid review.
#[derive(Debug, PartialEq)]
pub(crate) struct UnreadableReview {
    pub(crate) version: &'static str,
    pub(crate) uid: String,
    pub(crate) problem: String,
}

const KIND: &str = "AdmissionReview";
const V1: &str = "admission.k8s.io/v1";
const V1_BETA_1: &str = "admission.k8s.io/v1beta1";

/// The wire form of a review, which decodes only a valid body.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireAdmissionReview {
    api_version: String,
    kind: String,
    request: AdmissionRequest,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireAnswer<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: WireResponse<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WireResponse<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    warnings: &'a [String],
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    audit_annotations: &'a BTreeMap<String, String>,
}

/// Reads a review (ADMIT-1).
///
/// # Errors
///
/// The problem, with the version and the uid for the response, as far as the body has them.
pub(crate) fn read(body: &[u8]) -> Result<Review, UnreadableReview> {
    let unreadable = |version, uid: &str, problem| UnreadableReview {
        version,
        uid: uid.to_owned(),
        problem,
    };
    let first = |problem: String| unreadable(V1, "", problem);
    if body.is_empty() {
        return Err(first("the request has no body".to_owned()));
    }
    // The whole body is checked as UTF-8, because serde does not check the fields that it skips.
    let body = std::str::from_utf8(body)
        .map_err(|error| first(format!("the body is not JSON: {error}")))?;
    if let Some(review) = read_at_once(body) {
        return Ok(review);
    }
    let mut review: Value = serde_json::from_str(body)
        .map_err(|error| first(format!("the body is not JSON: {error}")))?;
    let uid = review["request"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let (api_version, kind) = (&review["apiVersion"], &review["kind"]);
    let Some(version) = api_version.as_str().and_then(known_version) else {
        let problem = format!(
            "apiVersion is {api_version}: this webhook answers admission.k8s.io/v1 and v1beta1"
        );
        return Err(unreadable(V1, &uid, problem));
    };
    let problem = if *kind != KIND {
        format!("kind is {kind}, not \"AdmissionReview\"")
    } else if !review["request"].is_object() {
        "the review has no request".to_owned()
    } else {
        match AdmissionRequest::deserialize(review["request"].take()) {
            Ok(request) => return Ok(Review { version, request }),
            Err(error) => format!("the request cannot be read: {error}"),
        }
    };
    Err(unreadable(version, &uid, problem))
}

fn known_version(api_version: &str) -> Option<&'static str> {
    let known = [V1, V1_BETA_1];
    known.into_iter().find(|version| *version == api_version)
}

/// Reads a valid review in one pass; `None` if the body has a problem, which [`read`] then finds.
fn read_at_once(body: &str) -> Option<Review> {
    let review: WireAdmissionReview = serde_json::from_str(body).ok()?;
    let version = known_version(&review.api_version)?;
    let request = review.request;
    (review.kind == KIND).then_some(Review { version, request })
}

pub(crate) fn write(version: &'static str, uid: &str, response: &AdmissionResponse) -> Vec<u8> {
    let patched = response.allowed && !response.patch.0.is_empty();
    let answer = WireAnswer {
        api_version: version,
        kind: KIND,
        response: WireResponse {
            uid,
            allowed: response.allowed,
            status: response.status.as_deref(),
            patch: patched.then(|| STANDARD.encode(encoded(&response.patch))),
            patch_type: patched.then_some("JSONPatch"),
            warnings: &response.warnings,
            audit_annotations: &response.audit_annotations,
        },
    };
    encoded(&answer)
}

fn encoded(value: &impl Serialize) -> Vec<u8> {
    // The encoding cannot fail: only maps with keys other than strings cannot be JSON.
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn review(api_version: &str) -> Value {
        json!({"apiVersion": api_version, "kind": "AdmissionReview", "request": {
            "uid": "u-1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"}, "operation": "DELETE",
        }})
    }

    /// ADMIT-1: each review gets one response, with its uid and in its version.
    #[test]
    fn a_response_has_the_version_and_the_uid_of_its_request() {
        for version in ["v1", "v1beta1"] {
            let api_version = format!("admission.k8s.io/{version}");
            let body = review(&api_version).to_string();
            let read = read(body.as_bytes()).unwrap();
            let response = AdmissionResponse::allowed().warning("careful");
            let written = write(read.version, &read.request.uid, &response);
            let written: Value = serde_json::from_slice(&written).unwrap();
            let expected = json!({"apiVersion": api_version, "kind": "AdmissionReview",
                "response": {"uid": "u-1", "allowed": true, "warnings": ["careful"]}});
            assert_eq!(written, expected);
        }
    }

    /// ADMIT-1: each review gets one response, with its uid and in its version.
    #[test]
    fn a_body_that_is_no_review_is_answered_with_the_problem_and_the_uid_that_it_has() {
        let with = |change: fn(&mut Value)| {
            let mut review = review("admission.k8s.io/v1");
            change(&mut review);
            review.to_string()
        };
        for (body, uid, problem) in [
            (String::new(), "", "the request has no body"),
            ("{".to_owned(), "", "the body is not JSON"),
            ("[7]".to_owned(), "", "apiVersion is null"),
            (
                with(|review| review["apiVersion"] = json!("admission.k8s.io/v2")),
                "u-1",
                "apiVersion is \"admission.k8s.io/v2\"",
            ),
            (
                with(|review| review["kind"] = json!("ConversionReview")),
                "u-1",
                "not \"AdmissionReview\"",
            ),
            (
                with(|review| review["request"] = json!(null)),
                "",
                "the review has no request",
            ),
            (
                with(|review| review["request"]["kind"] = json!("Pod")),
                "u-1",
                "the request cannot be read",
            ),
        ] {
            let unreadable = read(body.as_bytes()).unwrap_err();
            assert_eq!(unreadable.uid, uid, "{body}");
            assert!(unreadable.problem.contains(problem), "{unreadable:?}");
        }
    }

    /// ADMIT-1: each review gets one response, with its uid and in its version.
    #[test]
    fn a_body_that_is_not_utf_8_is_refused_wherever_the_wrong_byte_is() {
        let mut body = review("admission.k8s.io/v1");
        body["request"]["ignored"] = json!("~");
        let mut body = body.to_string().into_bytes();
        assert!(read(&body).is_ok());
        for byte in body.iter_mut().filter(|byte| **byte == b'~') {
            *byte = 0xfb;
        }
        let unreadable = read(&body).unwrap_err();
        assert!(unreadable.problem.contains("utf-8"), "{unreadable:?}");
    }
}
