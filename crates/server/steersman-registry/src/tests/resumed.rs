//! Tests of a create that stops for a webhook call and is then resumed.

use super::*;
use crate::webhook::CallResponse;

/// Runs a create of the ConfigMap `a` until it stops for a webhook call. Returns the attempt with a response that
/// allows the create.
fn stopped(server: &mut Server) -> Attempt {
    let hook = json!({
        "name": "h.example.com",
        "clientConfig": {"url": "https://localhost:1/"},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["configmaps"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    let hooks = json!({"metadata": {"name": "hooks"}, "webhooks": [hook]});
    server
        .create("mutatingwebhookconfigurations", hooks)
        .unwrap();
    let (maps, now) = (server.resource("configmaps"), server.now);
    let mut attempt = Attempt::default();
    let target = ObjectTarget::collection(&maps, Some("default"));
    let options = WriteOptions::default();
    let stopped = server.registry.attempt(&mut attempt, |registry| {
        registry.create(target, config_map("a"), &options, now)
    });
    for call in stopped.unwrap_err().calls {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": call.uid, "allowed": true}});
        let body = Ok(review.to_string().into());
        let uid = call.uid;
        attempt.learn(call.key, CallResponse { uid, body });
    }
    attempt
}

/// Calls `resume_create`, and returns whether it has continued the stopped create.
fn resumes(server: &mut Server, attempt: &mut Attempt) -> bool {
    let (maps, now) = (server.resource("configmaps"), server.now);
    let target = ObjectTarget::collection(&maps, Some("default"));
    let options = WriteOptions::default();
    let run = server.registry.attempt(attempt, |registry| {
        registry.resume_create(target, &options, now)
    });
    let resumed = run.unwrap();
    let is_resumed = resumed.is_some();
    assert!(resumed.is_none_or(|created| created.is_ok()));
    is_resumed
}

#[test]
fn a_create_continues_in_an_unchanged_registry() {
    let mut server = Server::new();
    let mut attempt = stopped(&mut server);
    // A refused write changes nothing, so the create can continue.
    server
        .create("configmaps", json!({"metadata": {"name": "X"}}))
        .unwrap_err();
    assert!(resumes(&mut server, &mut attempt));
    assert!(server.get("configmaps", "a").is_ok());
    // After its completion, the create cannot be resumed a second time.
    assert!(!resumes(&mut server, &mut attempt));
}

/// ADM-1: after another write, the kept object may differ from the object that the create would compute now.
#[test]
fn a_create_begins_anew_after_any_other_write() {
    let mut server = Server::new();
    let mut attempt = stopped(&mut server);
    server.create("configmaps", config_map("other")).unwrap();
    assert!(!resumes(&mut server, &mut attempt));
    assert!(server.get("configmaps", "a").is_err());
}

/// ADM-4: after a write of a webhook configuration, the create has to ask the webhooks that exist now.
#[test]
fn a_create_begins_anew_after_a_change_of_the_webhooks() {
    let mut server = Server::new();
    let mut attempt = stopped(&mut server);
    server.registry.presence.webhooks_edition += 1;
    assert!(!resumes(&mut server, &mut attempt));
}
