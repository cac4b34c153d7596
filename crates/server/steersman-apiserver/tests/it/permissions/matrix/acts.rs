//! Rows of subresources that perform an act, and of requests that need a second permission.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};

use steersman_apiserver::User;

use super::{CLAIM, PODS, REQUEST, Row, check, refusal};
use crate::permissions::{bind, by, create, rule};
use crate::support::{get, merge};

const POD: (&str, &str) = ("default", "p");
const SIGNER: &str = "example.com/signer";

pub(super) fn signing_request() -> Value {
    let params = CertificateParams::new(Vec::new()).unwrap();
    let made = params.serialize_request(&KeyPair::generate().unwrap());
    let pem = made.unwrap().pem().unwrap();
    json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": "csr" },
        "spec": { "request": STANDARD.encode(pem), "signerName": SIGNER, "usages": ["client auth"] } })
}

/// An eviction deletes and a binding changes a Pod, each with the permission of its own subresource
/// alone.
#[tokio::test(start_paused = true)]
async fn acts_need_the_right_to_their_subresource() {
    let source = "request_info.go";
    let evict =
        json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    let bind = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" },
        "target": { "kind": "Node", "name": "n" } });
    let token = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest" });
    check(vec![
        Row::new(source, "POST", format!("{PODS}/p/eviction"))
            .body(evict)
            .code(201)
            .gate("create", "", "pods/eviction", POD),
        Row::new(source, "POST", format!("{PODS}/p/binding"))
            .body(bind.clone())
            .code(201)
            .gate("create", "", "pods/binding", POD),
        Row::new(source, "POST", "/api/v1/namespaces/default/bindings")
            .body(bind)
            .code(201)
            .gate("create", "", "bindings", ("default", "")),
        Row::new(
            source,
            "POST",
            "/api/v1/namespaces/default/serviceaccounts/bot/token",
        )
        .body(token)
        .code(201)
        .gate("create", "", "serviceaccounts/token", ("default", "bot")),
        Row::new(source, "GET", format!("{PODS}/p/log"))
            .code(204)
            .gate("get", "", "pods/log", POD),
    ])
    .await;
}

/// AUTH-5: a stream needs `create`, whatever its method. A proxied request needs only the verb of
/// its method.
#[tokio::test(start_paused = true)]
async fn a_stream_needs_the_right_to_create_it() {
    let source = "pkg/registry/core/pod/rest/authorization.go: ensureAuthorizedForVerb";
    let mut rows = Vec::new();
    for part in ["exec", "attach", "portforward"] {
        let (path, resource) = (format!("{PODS}/p/{part}"), format!("pods/{part}"));
        let right = rule(&["create"], "", &[&resource]);
        // With all permissions the answer is that no container runs.
        rows.push(
            Row::new(source, "POST", path.clone())
                .code(400)
                .gate("create", "", &resource, POD),
        );
        rows.push(
            Row::new(source, "GET", path)
                .code(400)
                .gate("get", "", &resource, POD)
                .also(right, 403, "pods \"p\" is forbidden: "),
        );
    }
    for (method, verb) in [("GET", "get"), ("POST", "create"), ("PUT", "update")] {
        rows.push(
            Row::new("request_info.go", method, format!("{PODS}/p/proxy/x"))
                .code(400)
                .gate(verb, "", "pods/proxy", POD),
        );
        let service = "/api/v1/namespaces/default/services/s/proxy";
        rows.push(Row::new("request_info.go", method, service).code(503).gate(
            verb,
            "",
            "services/proxy",
            ("default", "s"),
        ));
        rows.push(
            Row::new("request_info.go", method, "/api/v1/nodes/n/proxy/stats")
                .code(500)
                .gate(verb, "", "nodes/proxy", ("", "n")),
        );
    }
    check(rows).await;
}

/// The approver or signer of a CertificateSigningRequest also needs the permission for its signer.
#[tokio::test(start_paused = true)]
async fn signing_needs_rights_to_the_signer() {
    let group = "certificates.k8s.io";
    let source = "plugin/pkg/admission/certificates/{approval,signing}";
    let signers = |verb: &str, name: &str| {
        json!({ "verbs": [verb], "apiGroups": [group], "resources": ["signers"],
            "resourceNames": [name] })
    };
    let lacks = |verb: &str| {
        format!(
            "certificatesigningrequests.{group} \"csr\" is forbidden: user not permitted to {verb} requests with signerName \"{SIGNER}\""
        )
    };
    let condition = |kind: &str| json!({ "status": { "conditions": [{ "type": kind, "status": "True", "reason": "Fine" }] } });
    let row = |part: &str, body: Value| {
        Row::new(source, "PATCH", format!("{REQUEST}/{part}"))
            .merge(body)
            .gate(
                "patch",
                group,
                &format!("certificatesigningrequests/{part}"),
                ("", "csr"),
            )
    };
    check(vec![
        row("approval", condition("Approved")).also(
            signers("approve", SIGNER),
            403,
            lacks("approve"),
        ),
        row("approval", condition("Denied")).also(
            signers("approve", "example.com/*"),
            403,
            lacks("approve"),
        ),
        row("status", condition("Failed")).also(signers("sign", SIGNER), 403, lacks("sign")),
    ])
    .await;
}

/// Only users who may read a policy's parameters may write a policy that reports about them.
#[tokio::test(start_paused = true)]
async fn policies_need_the_right_to_their_parameters() {
    let group = "admissionregistration.k8s.io";
    let source = "pkg/registry/admissionregistration/*/authz.go";
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let policy = json!({ "apiVersion": format!("{group}/v1"), "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": "v" },
        "spec": { "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" },
            "matchConstraints": { "resourceRules": [{ "apiGroups": [""], "apiVersions": ["v1"],
                "operations": ["CREATE"], "resources": ["pods"] }] },
            "validations": [{ "expression": "true" }] } });
    let row = Row::new(source, "POST", path)
        .body(policy)
        .code(201)
        .gate("create", group, "validatingadmissionpolicies", ("", ""))
        .also(rule(&["get"], "", &["configmaps"]), 422, "");
    row.send(None).await.2.expect(201);
    let refused = row.send(Some(1)).await.2.expect(422);
    let message = refused["message"].as_str().unwrap();
    let why = "must have \"get\" permission on all objects of the referenced paramKind (kind=ConfigMap, apiVersion=v1)";
    assert!(
        message.contains("spec.paramKind: Forbidden: user ") && message.ends_with(why),
        "{message}"
    );
}

/// AUTH-6: parts of a claim's status belong to a scheduler and to a driver.
#[tokio::test(start_paused = true)]
async fn parts_of_a_claims_status_need_rights_of_their_own() {
    let group = "resource.k8s.io";
    let source = "pkg/registry/resource/utils.go";
    let place = ("default", "claim");
    let allocation = json!({ "devices": { "results": [
        { "request": "r", "driver": "dra.example.com", "pool": "p", "device": "d" }] } });
    let devices = json!([{ "driver": "dra.example.com", "pool": "p", "device": "d" }]);
    let lacks = |field: &str, what: &str, verbs: &str, why: &str| {
        format!(
            "ResourceClaim.{group} \"claim\" is invalid: {field}: Forbidden: changing {what}, verb=\"{verbs}\" permission: {why}"
        )
    };
    let driver = |verb: &str| {
        json!({ "verbs": [verb], "apiGroups": [group], "resources": ["resourceclaims/driver"],
            "resourceNames": ["dra.example.com"] })
    };
    let (verb, arbitrary) = ("patch", "arbitrary-node:patch");
    let binding = lacks(
        "status",
        "status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\"",
        verb,
        &refusal("ann", verb, (group, "resourceclaims/binding"), ("", "")),
    );
    let devices_of = lacks(
        "status.devices",
        "status.devices requires resource=\"resourceclaims/driver\"",
        &format!("[{arbitrary}]"),
        &refusal(
            "ann",
            arbitrary,
            (group, "resourceclaims/driver"),
            ("default", "dra.example.com"),
        ),
    );
    let patch = |status: Value| {
        Row::new(source, "PATCH", format!("{CLAIM}/status"))
            .merge(json!({ "status": status }))
            .gate(verb, group, "resourceclaims/status", place)
    };
    let bind = rule(&[verb], group, &["resourceclaims/binding"]);
    check(vec![
        patch(json!({ "allocation": allocation })).also(bind.clone(), 422, binding.clone()),
        patch(json!({ "allocation": allocation, "devices": devices }))
            .also(bind, 422, binding)
            .also(driver(arbitrary), 422, devices_of),
        // Any other change of the status needs no more.
        Row::new(source, "PATCH", format!("{CLAIM}/status"))
            .merge(json!({ "metadata": { "labels": { "a": "b" } } }))
            .gate(verb, group, "resourceclaims/status", place),
    ])
    .await;
}

/// AUTH-6: a driver on the node of the claim's allocation needs only the narrower verb, which is
/// not enough on another node.
#[tokio::test(start_paused = true)]
async fn a_driver_writes_its_devices_from_the_node_of_the_claim() {
    let group = "resource.k8s.io";
    let server = super::world();
    let term = json!({ "matchFields": [
        { "key": "metadata.name", "operator": "In", "values": ["n"] }] });
    let allocation = json!({
        "nodeSelector": { "nodeSelectorTerms": [term] },
        "devices": { "results": [
            { "request": "r", "driver": "dra.example.com", "pool": "p", "device": "d" }] },
    });
    let claim = json!({ "status": { "allocation": allocation } });
    let path = format!("{CLAIM}/status");
    merge(&server, &path, &claim).await.expect(200);
    let rules = [
        rule(&["update"], group, &["resourceclaims/status"]),
        rule(&["get"], group, &["resourceclaims"]),
        rule(
            &["associated-node:update"],
            group,
            &["resourceclaims/driver"],
        ),
    ];
    create(&server, "ClusterRole", "driver", &json!({ "rules": rules }));
    let name = "system:serviceaccount:default:bot";
    bind(&server, "driver", name);
    let mut written = get(&server, CLAIM).await.expect(200);
    let devices = json!([{ "driver": "dra.example.com", "pool": "p", "device": "d" }]);
    written["status"]["devices"] = devices;
    let denied = refusal(
        name,
        "arbitrary-node:update",
        (group, "resourceclaims/driver"),
        ("default", "dra.example.com"),
    );
    let denied = format!(
        "ResourceClaim.{group} \"claim\" is invalid: status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[arbitrary-node:update]\" permission: {denied}"
    );
    let node = "authentication.kubernetes.io/node-name";
    for (account, message) in [
        (User::new(name).extra(node, "m"), Some(&denied)),
        (User::new(name), Some(&denied)),
        (User::new("ann").extra(node, "n"), None),
        (User::new(name).extra(node, "n"), None),
    ] {
        let is_account = account.name == name;
        let token = server.add_user(account);
        let answer = by(&server, &token, "PUT", &path, &written).await;
        match message {
            Some(message) => assert_eq!(answer.expect(422)["message"], **message),
            None if is_account => {
                answer.expect(200);
            }
            None => assert_eq!(answer.status, 403, "{}", answer.text),
        }
    }
}
