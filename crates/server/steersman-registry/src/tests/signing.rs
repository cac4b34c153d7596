//! Tests of CertificateSigningRequests: their users, approvers and signers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use steersman_auth::{Authorization, User};

use super::{Server, refused};
use crate::{ObjectTarget, RegistryOptions, Subresource, WriteOptions};

fn request(group: &str) -> Value {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params
        .distinguished_name
        .push(DnType::OrganizationName, group);
    let made = params.serialize_request(&KeyPair::generate().unwrap());
    let pem = made.unwrap().pem().unwrap();
    json!({"metadata": {"name": "a"}, "spec": {"request": STANDARD.encode(pem),
        "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"],
        "username": "another user"}})
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True", "reason": "Fine"})
}

const PLURAL: &str = "certificatesigningrequests";

#[test]
fn a_request_is_approved_and_then_signed() {
    let mut server = Server::new();
    let options = WriteOptions {
        user: User::new("ann").group("team").into(),
        ..WriteOptions::default()
    };
    let resource = server.resource(PLURAL);
    let target = ObjectTarget::collection(&resource, None);
    let now = server.now;
    let made = server
        .registry
        .create(target, request("team"), &options, now);
    let mut made = made.unwrap().object.value().clone();
    assert_eq!(made["spec"]["username"], "ann");
    assert_eq!(made["spec"]["groups"], json!(["team"]));
    // The condition `Approved` cannot be added by a status write, and the certificate not by a write of `approval`.
    made["status"] = json!({"conditions": [condition("Approved")]});
    let (code, message) = refused(server.put(PLURAL, Subresource::Status, made.clone()));
    assert_eq!(code, 422);
    assert!(
        message.ends_with(
            "status.conditions: Forbidden: updates may not add a condition of type \"Approved\""
        ),
        "{message}"
    );
    made["status"]["certificate"] = json!("YQ==");
    let mut approved = server.put(PLURAL, Subresource::Approval, made).unwrap();
    assert!(approved["status"]["certificate"].is_null());
    assert_eq!(
        approved["status"]["conditions"],
        json!([{"type": "Approved", "status": "True", "reason": "Fine",
            "lastUpdateTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}])
    );
    approved["status"]["conditions"] = json!([condition("Approved"), condition("Denied")]);
    let (code, message) = refused(server.put(PLURAL, Subresource::Approval, approved.clone()));
    assert_eq!(code, 422);
    assert!(message.ends_with(
        "status.conditions[1].type: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive"
    ), "{message}");
    let mut signed = server.get(PLURAL, "a").unwrap();
    signed["status"]["certificate"] = json!("YQ==");
    let (code, message) = refused(server.put(PLURAL, Subresource::Status, signed.clone()));
    assert_eq!(code, 422);
    let text = "status.certificate: Invalid value: \"<certificate data>\": must contain at least one CERTIFICATE PEM block";
    assert!(message.ends_with(text), "{message}");
    let certificate = |name: &str| {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let made = params.self_signed(&KeyPair::generate().unwrap());
        STANDARD.encode(made.unwrap().pem())
    };
    signed["status"]["certificate"] = certificate("a").into();
    let mut signed = server.put(PLURAL, Subresource::Status, signed).unwrap();
    assert!(signed["status"]["certificate"].is_string());
    signed["status"]["certificate"] = certificate("b").into();
    assert_eq!(
        refused(server.put(PLURAL, Subresource::Status, signed)).0,
        422
    );
}

#[test]
fn client_certificates_for_masters_are_refused_and_approval_needs_permission() {
    let mut server = Server::with(RegistryOptions {
        authorization: Authorization::Rbac,
        ..RegistryOptions::default()
    });
    assert_eq!(
        refused(server.create(PLURAL, request("system:masters"))),
        (
            403,
            "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed".to_owned()
        )
    );
    let mut made = server.create(PLURAL, request("team")).unwrap();
    made["status"] = json!({"conditions": [condition("Approved")]});
    let approve = |server: &mut Server, user: User| {
        let options = WriteOptions {
            user: user.into(),
            ..WriteOptions::default()
        };
        let resource = server.resource(PLURAL);
        let target = ObjectTarget::object(&resource, None, "a").part(Subresource::Approval);
        let now = server.now;
        server.registry.update(target, made.clone(), &options, now)
    };
    assert_eq!(
        approve(&mut server, User::new("ann")).unwrap_err().message,
        "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    server
        .create(
            "clusterroles",
            json!({"metadata": {"name": "approves"}, "rules": [{"apiGroups": ["certificates.k8s.io"],
                "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}]}),
        )
        .unwrap();
    server
        .create(
            "clusterrolebindings",
            json!({"metadata": {"name": "approves"}, "subjects": [{"kind": "User", "name": "ann",
                "apiGroup": "rbac.authorization.k8s.io"}], "roleRef": {"kind": "ClusterRole",
                "name": "approves", "apiGroup": "rbac.authorization.k8s.io"}}),
        )
        .unwrap();
    approve(&mut server, User::new("ann")).unwrap();
}

/// A write of conditions in the status needs the permission to sign for the signer of the request. The fields `uid` and
/// `groups` that a client sends in a new request are dropped.
#[test]
fn signers_write_the_status() {
    let mut server = Server::with(RegistryOptions {
        authorization: Authorization::Rbac,
        ..RegistryOptions::default()
    });
    let mut other = request("system:masters");
    other["spec"]["signerName"] = json!("example.com/own");
    for (field, value) in [("uid", json!("1")), ("groups", json!(["system:masters"]))] {
        other["spec"][field] = value;
    }
    let mut made = server.create(PLURAL, other).unwrap();
    assert_eq!(made["spec"].get("uid"), None);
    assert_eq!(made["spec"].get("groups"), None);
    made["status"] = json!({"conditions": [condition("Failed")]});
    let (code, message) = refused(server.put(PLURAL, Subresource::Status, made));
    assert_eq!(code, 403);
    assert!(
        message
            .ends_with("user not permitted to sign requests with signerName \"example.com/own\"")
    );
}

#[test]
fn a_condition_keeps_its_transition_time() {
    let old = json!({"status": {"conditions": [
        {"type": "A", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        {"type": "B", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}]}});
    let mut new = json!({"status": {"conditions": [
        {"type": "A", "status": "True"}, {"type": "B", "status": "False"}]}});
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    crate::plugins::signing::time_conditions(&mut new, &old, now);
    let times = [0, 1].map(|at| new["status"]["conditions"][at]["lastTransitionTime"].clone());
    assert_eq!(times, ["2020-01-01T00:00:00Z", "2026-01-02T03:04:05Z"]);
}
