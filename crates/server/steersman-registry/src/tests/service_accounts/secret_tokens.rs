//! Tests of ServiceAccount tokens in Secrets, as kube-controller-manager writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::Server;

fn claims(server: &Server) -> Value {
    let account = server.get("serviceaccounts", "bot").unwrap();
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:bot",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "bot-token",
        "kubernetes.io/serviceaccount/service-account.name": "bot",
        "kubernetes.io/serviceaccount/service-account.uid": account["metadata"]["uid"],
    })
}

/// Creates a server with a ServiceAccount, and a Secret with a token of this ServiceAccount. Returns the token, too.
fn with_token() -> (Server, String) {
    let mut server = Server::new();
    let bot = json!({"metadata": {"name": "bot"}});
    server.create("serviceaccounts", bot).unwrap();
    let token = server.registry.issuer.issue(&claims(&server)).unwrap();
    let secret = json!({
        "metadata": {"name": "bot-token",
            "annotations": {"kubernetes.io/service-account.name": "bot"}},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": STANDARD.encode(&token)},
    });
    server.create("secrets", secret).unwrap();
    (server, token)
}

fn refusal(server: &Server, token: &str) -> String {
    let refused = server.registry.authenticate(token, &[], server.now);
    let text = refused.unwrap_err();
    let inner = text.strip_prefix("[invalid bearer token, ").unwrap();
    inner.trim_end_matches(']').to_owned()
}

#[test]
fn a_token_in_a_secret_is_that_of_its_account() {
    let (server, token) = with_token();
    let valid = server.registry.authenticate(&token, &[], server.now);
    let valid = valid.unwrap();
    assert_eq!(valid.user.name, "system:serviceaccount:default:bot");
    assert!(valid.user.is_in("system:serviceaccounts:default"));
    assert_eq!(valid.audiences, ["https://kubernetes.default.svc"]);
    let other = ["other".to_owned()];
    assert!(
        server
            .registry
            .authenticate(&token, &other, server.now)
            .is_err()
    );
}

/// AUTH-2, AUTH-8: a token in a Secret is valid as long as the Secret and the ServiceAccount exist.
#[test]
fn a_token_in_a_secret_ends_with_the_secret_and_with_the_account() {
    let (mut server, token) = with_token();
    for (claim, wrong, why) in [
        (
            "sub",
            "system:serviceaccount:default:other",
            "sub claim is invalid",
        ),
        (
            "kubernetes.io/serviceaccount/namespace",
            "",
            "namespace claim is missing",
        ),
        (
            "kubernetes.io/serviceaccount/secret.name",
            "absent",
            "service account token has been invalidated",
        ),
        (
            "jti",
            "x",
            "service account token does not match server's copy",
        ),
    ] {
        let mut claims = claims(&server);
        claims[claim] = json!(wrong);
        let token = server.registry.issuer.issue(&claims).unwrap();
        assert_eq!(refusal(&server, &token), why);
    }
    let label = "kubernetes.io/legacy-token-invalid-since";
    let mark = |since: Value| json!({"metadata": {"labels": {label: since}}});
    server
        .merge("secrets", "bot-token", mark(json!("2026-01-01")))
        .unwrap();
    assert!(refusal(&server, &token).contains("has been marked invalid"));
    server
        .merge("secrets", "bot-token", mark(Value::Null))
        .unwrap();
    assert!(
        server
            .registry
            .authenticate(&token, &[], server.now)
            .is_ok()
    );
    let uid = server.get("serviceaccounts", "bot").unwrap()["metadata"]["uid"].clone();
    server.delete("serviceaccounts", "bot").unwrap();
    assert_eq!(
        refusal(&server, &token),
        "serviceaccounts \"bot\" not found"
    );
    let bot = json!({"metadata": {"name": "bot"}});
    let again = server.create("serviceaccounts", bot).unwrap();
    let (old, new) = (
        uid.as_str().unwrap(),
        again["metadata"]["uid"].as_str().unwrap(),
    );
    assert_eq!(
        refusal(&server, &token),
        format!("service account UID ({new}) does not match claim ({old})")
    );
    server.delete("secrets", "bot-token").unwrap();
    assert_eq!(
        refusal(&server, &token),
        "service account token has been invalidated"
    );
}

/// The label of a Secret with the day of the last use is written at most once a day.
#[test]
fn the_use_of_a_token_is_noted_in_its_secret_once_a_day() {
    let (mut server, token) = with_token();
    let used = |server: &mut Server| {
        let valid = server.registry.authenticate(&token, &[], server.now);
        server.registry.mark_used_secrets(server.now);
        let secret = server.get("secrets", "bot-token").unwrap();
        (valid.is_ok(), secret)
    };
    let last = "/metadata/labels/kubernetes.io~1legacy-token-last-used";
    let (is_valid, first) = used(&mut server);
    assert!(is_valid);
    assert_eq!(first.pointer(last), Some(&json!("2026-01-02")));
    let fields = first["metadata"]["managedFields"].as_array().unwrap();
    let mine = fields.iter().find(|one| one["manager"] == "kube-apiserver");
    let labels = &mine.unwrap()["fieldsV1"]["f:metadata"]["f:labels"];
    let name = "f:kubernetes.io/legacy-token-last-used";
    assert_eq!(labels[name], json!({}));
    // A second use of the token on the same day writes nothing.
    assert_eq!(used(&mut server).1, first);
    server.now += jiff::SignedDuration::from_hours(24);
    let (_, second) = used(&mut server);
    assert_eq!(second.pointer(last), Some(&json!("2026-01-03")));
    // The Secret gets the label that makes its token invalid: the token is refused, but its use is still recorded.
    let label = json!({"metadata": {"labels":
        {"kubernetes.io/legacy-token-invalid-since": "2026-01-03"}}});
    server.merge("secrets", "bot-token", label).unwrap();
    server.now += jiff::SignedDuration::from_hours(24);
    let (is_valid, third) = used(&mut server);
    assert!(!is_valid);
    assert_eq!(third.pointer(last), Some(&json!("2026-01-04")));
}
