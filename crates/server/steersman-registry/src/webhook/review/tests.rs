//! Tests of reading valid and invalid responses of admission webhooks.

use super::*;
use serde_json::json;

fn answer(body: &Value) -> CallResponse {
    CallResponse {
        uid: "u".to_owned(),
        body: Ok(body.to_string().into()),
    }
}

fn review(response: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

#[test]
fn bad_answers_have_different_errors() {
    let mut foreign = review(&json!({"uid": "u", "allowed": true}));
    foreign["apiVersion"] = json!("v1");
    for (body, mutating, why) in [
        (
            json!({}),
            true,
            "received invalid webhook response: webhook response was absent",
        ),
        (
            review(&json!({"uid": "x"})),
            true,
            "received invalid webhook response: expected response.uid=\"u\", got \"x\"",
        ),
        (
            foreign,
            true,
            "received invalid webhook response: expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /v1, Kind=AdmissionReview",
        ),
        (
            review(&json!({"uid": "u", "allowed": true, "patch": "W10="})),
            true,
            "received invalid webhook response: webhook returned response.patch but not response.patchType",
        ),
        (
            review(
                &json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch"}),
            ),
            false,
            "received invalid webhook response: validating webhook may not return response.patch",
        ),
        (
            review(&json!({"uid": "u", "allowed": true, "patch": "W10=", "patchType": "Merge"})),
            true,
            "unsupported patch type \"Merge\"",
        ),
        (
            review(
                &json!({"uid": "u", "allowed": true, "patch": "e30=", "patchType": "JSONPatch"}),
            ),
            true,
            "received undecodable patch in webhook response: json: cannot unmarshal object into Go value of type jsonpatch.Patch",
        ),
    ] {
        let found = read("h", "v1", mutating, &answer(&body));
        assert_eq!(found.unwrap_err(), why, "{body}");
    }
    let broken = CallResponse {
        uid: "u".to_owned(),
        body: Err("Post \"https://h\": EOF".to_owned()),
    };
    assert_eq!(
        read("h", "v1", true, &broken).unwrap_err(),
        "failed to call webhook: Post \"https://h\": EOF"
    );
}

#[test]
fn a_refusal_is_never_a_success() {
    for (status, code, message) in [
        (
            Value::Null,
            400,
            "admission webhook \"h\" denied the request without explanation",
        ),
        (
            json!({"code": 200, "reason": "Odd"}),
            400,
            "admission webhook \"h\" denied the request: Odd",
        ),
        (
            json!({"code": 403, "message": "no", "reason": "Forbidden"}),
            403,
            "admission webhook \"h\" denied the request: no",
        ),
    ] {
        let body = review(&json!({"uid": "u", "allowed": false, "status": status}));
        let refusal = read("h", "v1", false, &answer(&body))
            .unwrap()
            .refusal
            .unwrap();
        assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
        assert_eq!(refusal.status, "Failure");
    }
}
