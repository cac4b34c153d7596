//! The webhooks of the program: processes with one API server over HTTPS, and certificates of their own authority.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use steersman::CancellationToken;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::eventually;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::binary::{configured, free_address};
use crate::replica::{QUICK_ELECTION, Replica};

const KIND: &str = "websites.web.example.com";
const SECRET: &str = "website-operator-certificates";
const PHASE: &str = "steersman/rotation-phase";

/// Starts a replica with authorities that overlap for a second.
fn start(home: &Path, name: &str) -> Replica {
    let settings = "operator:\n  certificate-overlap-seconds: 1\n";
    std::fs::write(home.join("settings.yaml"), settings).unwrap();
    let webhooks = format!("--webhook-bind-address={}", free_address());
    let arguments = [
        "--install",
        "--leader-election-namespace=default",
        "--config=settings.yaml",
        &webhooks,
    ];
    Replica::start(home, name, &[&QUICK_ELECTION[..], &arguments].concat())
}

/// Creates the configurations of `manifests/webhooks.yaml` for a Service of the namespace `default`.
fn configure(server: &ApiServer) {
    let manifest = include_str!("../../manifests/webhooks.yaml");
    for document in manifest.split("\n---\n") {
        let mut object: Value = serde_saphyr::from_str(document).unwrap();
        if let Some(webhooks) = object["webhooks"].as_array_mut() {
            for webhook in webhooks {
                webhook["clientConfig"]["service"]["namespace"] = json!("default");
            }
            server.create(object).unwrap();
        }
    }
}

/// Waits until the leader has installed the definition, and the webhooks answer.
async fn answered(server: &ApiServer, replicas: &[&Replica]) {
    let ready = eventually("a website passes the webhooks", || async move {
        let answer = try_create(server, json!({"pages": "p"}), "probe").await;
        answer.map(drop)
    });
    if let Err(error) = ready.await {
        let logs: Vec<String> = replicas.iter().map(|replica| replica.log()).collect();
        panic!("{error}\n{}", logs.join("\n"));
    }
}

/// Creates a website of v1 through HTTP, as a client does.
async fn try_create(server: &ApiServer, spec: Value, name: &str) -> Result<Value, String> {
    send(server, "v1", "POST", "", &site("v1", name, &spec)).await
}

pub(crate) fn site(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("web.example.com/{version}"), "kind": "Website",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

/// Sends a request to a path below the websites of a namespace. An answer that is no success is the error.
pub(crate) async fn send(
    server: &ApiServer,
    version: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Value, String> {
    use steersman::http::Request;
    use steersman::tower::ServiceExt as _;

    let uri = format!("/apis/web.example.com/{version}/namespaces/default/websites{path}");
    let content = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("content-type", content);
    let request = request.body(body.to_string()).unwrap();
    let response = server.service().oneshot(request).await;
    let response = response.map_err(|error| error.to_string())?;
    let is_success = response.status().is_success();
    let bytes = collect(response.into_body()).await;
    let text = String::from_utf8(bytes).unwrap();
    match serde_json::from_str::<Value>(&text) {
        Ok(answer) if is_success => Ok(answer),
        Ok(status) => Err(status["message"].as_str().unwrap_or_default().to_owned()),
        // The server does not serve the kind yet.
        Err(_) => Err(text),
    }
}

async fn collect<B: http_body::Body>(body: B) -> Vec<u8>
where
    B::Error: std::fmt::Debug,
{
    use http_body_util::BodyExt as _;
    body.collect().await.unwrap().to_bytes().to_vec()
}

/// Starts a replica behind the Service.
async fn running() -> (steersman_testenv::TestEnv, TempDir, Replica) {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    configure(server);
    let replica = start(home.path(), "one");
    server.route_service("default", "website-operator", 443, &replica.url());
    answered(server, &[&replica]).await;
    (env, home, replica)
}

#[tokio::test]
async fn websites_are_completed_checked_and_converted() {
    let (env, _home, _replica) = running().await;
    let server = env.server().unwrap();
    // The definition and the configurations have the authority of the operator.
    let definition = server
        .get("customresourcedefinitions.apiextensions.k8s.io", "", KIND)
        .unwrap();
    assert!(definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].is_string());

    let old = site(
        "v1alpha1",
        "old",
        &json!({"image": "nginx", "servers": 2, "pages": "p"}),
    );
    let created = send(server, "v1alpha1", "POST", "", &old).await.unwrap();
    assert_eq!(
        created["spec"],
        json!({"image": "nginx:stable", "servers": 2, "pages": "p"})
    );
    let new = send(server, "v1", "GET", "/old", &Value::Null)
        .await
        .unwrap();
    assert_eq!(new["spec"]["replicas"], 2);

    // A field that only v1 has survives a change by a client of v1alpha1.
    let host = json!({"spec": {"host": "www.example.com"}});
    send(server, "v1", "PATCH", "/old", &host).await.unwrap();
    let servers = json!({"spec": {"servers": 3}});
    send(server, "v1alpha1", "PATCH", "/old", &servers)
        .await
        .unwrap();
    let new = send(server, "v1", "GET", "/old", &Value::Null)
        .await
        .unwrap();
    assert_eq!(
        (&new["spec"]["host"], &new["spec"]["replicas"]),
        (&json!("www.example.com"), &json!(3))
    );

    let refused = try_create(server, json!({"pages": "p", "host": "No Host"}), "bad")
        .await
        .unwrap_err();
    assert!(
        refused.contains("spec.host: Invalid value: \"No Host\""),
        "{refused}"
    );
    let refused = try_create(server, json!({"pages": "p", "host": "https://a"}), "bad")
        .await
        .unwrap_err();
    assert!(
        refused.contains("a host is a name without a scheme"),
        "{refused}"
    );
}

/// The number of writes at a time: without optimization, a machine cannot carry out a write every 5 ms.
const AT_ONCE: usize = 8;

/// The number of websites that are written in turn, so that two writes of one seldom meet.
const SITES: u32 = 32;

/// Writes a website every 5 ms until `stop` is cancelled, if fewer than [`AT_ONCE`] writes wait for their answers.
/// Returns the number of writes, or a refusal.
async fn writes(server: &ApiServer, stop: &CancellationToken) -> Result<u32, String> {
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    let (mut written, mut in_flight) = (0, JoinSet::new());
    for site in 0..SITES {
        try_create(server, json!({"pages": "p"}), &format!("site-{site}")).await?;
    }
    while !stop.is_cancelled() {
        ticks.tick().await;
        if in_flight.len() >= AT_ONCE {
            in_flight.join_next().await.unwrap().unwrap()?;
        }
        written += 1;
        let server = server.clone();
        in_flight.spawn(async move {
            // Through the conversion and both webhooks.
            let label = json!({"metadata": {"labels": {"n": written.to_string()}}});
            let path = format!("/site-{}", written % SITES);
            let sent = send(&server, "v1alpha1", "PATCH", &path, &label).await;
            sent.map_err(|refused| format!("write {written}: {refused}"))
        });
        while let Some(answered) = in_flight.try_join_next() {
            answered.unwrap()?;
        }
    }
    for answered in in_flight.join_all().await {
        answered?;
    }
    Ok(written)
}

/// Checks that there were writes, and with optimization as many per second as the variable demands: a test without
/// optimization cannot reach 200.
fn assert_enough(written: u32, elapsed: Duration) {
    let rate = f64::from(written) / elapsed.as_secs_f64();
    let demanded = std::env::var("STEERSMAN_WRITES_PER_SECOND").ok();
    let demanded: f64 = demanded.map_or(1.0, |text| text.parse().unwrap());
    assert!(
        written > 10 && rate >= demanded,
        "{written} writes, {rate} per second"
    );
}

/// Returns the phase of the rotation, and the certificate of the authority.
fn rotation(server: &ApiServer) -> (String, Value) {
    let secret = server.get("secrets", "default", SECRET).unwrap();
    let phase = secret["metadata"]["annotations"][PHASE]
        .as_str()
        .unwrap_or_default();
    (phase.to_owned(), secret["data"]["ca.crt"].clone())
}

/// Makes the leader replace the authority.
fn begin_rotation(server: &ApiServer) {
    let patch = json!({"data": {"ca.key": null}});
    server
        .merge_patch("secrets", "default", SECRET, &patch)
        .unwrap();
}

/// Waits until a rotation is over and the authority is another one than `former`.
async fn rotated(server: &ApiServer, former: &Value) -> Result<(), String> {
    let over = eventually("the authority is replaced", || async move {
        let (phase, authority) = rotation(server);
        match phase == "steady" && authority != *former {
            true => Ok(()),
            false => Err(phase),
        }
    });
    over.await.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_of_the_authority_refuses_no_write() {
    let (env, _home, replica) = running().await;
    let server = env.server().unwrap();
    let (_, former) = rotation(server);
    let stop = CancellationToken::new();
    let rotate = async {
        begin_rotation(server);
        let ended = rotated(server, &former).await;
        // The overlap of the former authority is over, too.
        tokio::time::sleep_until(Instant::now() + Duration::from_millis(500)).await;
        stop.cancel();
        ended
    };
    let begun = Instant::now();
    let (written, ended) = tokio::join!(writes(server, &stop), rotate);
    ended.unwrap_or_else(|error| panic!("{error}\n{}", replica.log()));
    let written = written.unwrap_or_else(|error| panic!("{error}\n{}", replica.log()));
    assert_enough(written, begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_goes_on_after_its_leader_was_killed() {
    let (env, home, mut leader) = running().await;
    let server = env.server().unwrap();
    let eventually_leads = eventually("the first replica leads", || async {
        leader
            .leads()
            .then_some(())
            .ok_or_else(|| "it does not".to_owned())
    });
    eventually_leads.await.unwrap();
    let standby = start(home.path(), "two");
    let presents = eventually("the standby has the certificate", || async {
        let log = standby.log();
        log.contains("present the certificate")
            .then_some(())
            .ok_or(log)
    });
    presents.await.unwrap();
    // As in a cluster, the Service leads to the replica that stays.
    server.route_service("default", "website-operator", 443, &standby.url());
    let (_, former) = rotation(server);
    let stop = CancellationToken::new();
    let kill = async {
        begin_rotation(server);
        let begun = eventually("the rotation has begun", || async move {
            let (phase, _) = rotation(server);
            (phase != "steady")
                .then_some(())
                .ok_or_else(|| "steady".to_owned())
        });
        begun.await.map_err(|error| error.to_string())?;
        leader.kill().await;
        let (phase, _) = rotation(server);
        assert_ne!(phase, "steady", "killed in the middle");
        let ended = rotated(server, &former).await;
        stop.cancel();
        ended
    };
    let begun = Instant::now();
    let (written, ended) = tokio::join!(writes(server, &stop), kill);
    ended.unwrap_or_else(|error| panic!("{error}\n{}", standby.log()));
    let written = written.unwrap_or_else(|error| panic!("{error}\n{}", standby.log()));
    assert_enough(written, begun.elapsed());
    assert!(standby.leads());
}

#[tokio::test]
async fn an_operator_takes_over_the_websites_of_its_first_release() {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    // The first release had one version, and no webhook.
    let mut first = serde_json::to_value(website_operator::website::crd()).unwrap();
    let versions = first["spec"]["versions"].as_array_mut().unwrap();
    versions.retain(|version| version["name"] == "v1alpha1");
    versions[0]["storage"] = json!(true);
    server.install_crd(first).unwrap();
    for name in ["one", "two"] {
        let site = site(
            "v1alpha1",
            name,
            &json!({"image": "nginx:1", "servers": 2, "pages": "p"}),
        );
        send(server, "v1alpha1", "POST", "", &site).await.unwrap();
    }
    let replica = start(home.path(), "one");
    server.route_service("default", "website-operator", 443, &replica.url());
    let migrated = eventually("the websites are stored in v1", || async move {
        let definition = server
            .get("customresourcedefinitions.apiextensions.k8s.io", "", KIND)
            .unwrap();
        let stored = &definition["status"]["storedVersions"];
        (*stored == json!(["v1"]))
            .then_some(())
            .ok_or_else(|| stored.to_string())
    });
    migrated
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", replica.log()));
    let reconciled = eventually("a website has a status", || async move {
        let site = send(server, "v1", "GET", "/two", &Value::Null).await?;
        match (&site["spec"]["replicas"], &site["status"]["conditions"]) {
            (replicas, conditions) if *replicas == 2 && conditions.is_array() => Ok(()),
            _ => Err(site.to_string()),
        }
    });
    reconciled
        .await
        .unwrap_or_else(|error| panic!("{error}\n{}", replica.log()));
}
