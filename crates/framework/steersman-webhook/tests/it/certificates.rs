//! Tests the built-in authority: its Secret, the injection into configurations, and the replicas.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prometheus::{Encoder as _, Registry, TextEncoder};
use rcgen::{CertificateParams, KeyPair};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_object::ObjectKey;
use steersman_serve::TlsOptions;
use steersman_testenv::log::capture;
use steersman_testenv::seeds::{self, SeededRng};
use steersman_webhook::{
    AdmissionContext, AuthorityMetrics, BuiltInCertificates, Refusal, Validator, WebhookServer,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use crate::authority_world::{
    DEFINITIONS, HOUR, MUTATING, SECRETS, VALIDATING, bundles, configuration, connect, damage,
    decoded, follow, install, lead, namespace, options, phase, provider, roots, secret, settled,
    text, trusted, until, until_settled, verify,
};
use crate::world::{Running, Site, World, site};

#[tokio::test(start_paused = true)]
async fn the_leader_injects_its_authority_and_each_replica_presents_the_certificate() {
    let server = ApiServer::new();
    install(&server);
    let (one, other) = (options(&server), options(&server));
    let _following = [follow(&server, &one), follow(&server, &other)];
    assert!(!one.certificate().is_set());
    let _leading = lead(&server, &one);
    until_settled(&server).await;
    until("both replicas have it", || {
        one.certificate().is_set() && other.certificate().is_set()
    })
    .await;
    assert_eq!(bundles(&server).len(), 5);
    let secret = secret(&server).unwrap();
    assert_eq!(secret["type"], "kubernetes.io/tls");
    // Nothing to do: the Secret and the configurations stay as they are.
    let before = server.revision();
    tokio::time::sleep(HOUR / 4).await;
    assert_eq!(server.revision(), before);
}

/// CERT-4: what is absent or damaged is replaced by the least change.
#[tokio::test(start_paused = true)]
async fn a_replica_creates_the_secret_if_no_leader_does() {
    let server = ApiServer::new();
    install(&server);
    let (one, other) = (options(&server), options(&server));
    let _following = [follow(&server, &one), follow(&server, &other)];
    until("both replicas have it", || {
        one.certificate().is_set() && other.certificate().is_set()
    })
    .await;
    let is_injected = bundles(&server).iter().any(|bundle| !bundle.is_empty());
    assert!(!is_injected, "only a leader injects");
    let authority = decoded(&secret(&server).unwrap()["data"]["ca.crt"]);
    let _leading = lead(&server, &one);
    until_settled(&server).await;
    assert_eq!(
        decoded(&secret(&server).unwrap()["data"]["ca.crt"]),
        authority
    );
    assert!(bundles(&server).iter().all(|bundle| *bundle == authority));
    assert_eq!(bundles(&server).len(), 5);
}

/// CERT-6: an injection changes the bundles and nothing else, and is repeated.
#[tokio::test(start_paused = true)]
async fn an_outage_proposes_no_permission_and_a_missing_one_is_named() {
    let server = ApiServer::new();
    install(&server);
    let options = options(&server);
    for (code, words) in [(503, "503"), (403, "grant it with RBAC")] {
        let log = capture();
        let answer = || Answer::code(code);
        let resources = [SECRETS, VALIDATING];
        let faults = resources.map(|resource| server.faults().answer(None, resource, answer()));
        let loops = [lead(&server, &options), follow(&server, &options)];
        tokio::time::sleep(Duration::from_secs(60)).await;
        let text = log.text();
        for message in [
            "the webhook certificates cannot be kept, trying again",
            "the webhook certificate cannot be read, trying again",
        ] {
            let lines = text.lines().filter(|line| line.contains(message));
            let lines: Vec<&str> = lines.collect();
            assert!(!lines.is_empty(), "{message}: {text}");
            for line in lines {
                let names_rules = line.contains("needs") || line.contains("RBAC");
                assert_eq!(names_rules, code == 403, "{line}");
                assert!(line.contains(words), "{line}");
            }
        }
        drop((faults, loops));
    }
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_changes_or_appears_later_gets_the_authority() {
    let server = ApiServer::new();
    namespace(&server);
    let _leading = lead(&server, &options(&server));
    until_settled(&server).await;
    server
        .create(configuration("ValidatingWebhookConfiguration"))
        .unwrap();
    until("the new configuration has it", || {
        bundles(&server).len() == 2
    })
    .await;
    until_settled(&server).await;
    // Another program removes one CA bundle and replaces another.
    let injected = server.get(VALIDATING, "", "hooks").unwrap();
    let key = KeyPair::generate().unwrap();
    let foreign = CertificateParams::new(vec!["hooks.shop.svc".to_owned()]).unwrap();
    let foreign = STANDARD.encode(foreign.self_signed(&key).unwrap().pem());
    let mut changed = injected.clone();
    changed["webhooks"][0]["clientConfig"]["caBundle"] = json!(foreign);
    let other = changed["webhooks"][1]["clientConfig"]
        .as_object_mut()
        .unwrap();
    other.remove("caBundle");
    changed["webhooks"][1]["timeoutSeconds"] = json!(7);
    server.update(VALIDATING, changed).unwrap();
    until_settled(&server).await;
    let mut wanted = injected["webhooks"].clone();
    wanted[1]["timeoutSeconds"] = json!(7);
    assert_eq!(
        server.get(VALIDATING, "", "hooks").unwrap()["webhooks"],
        wanted
    );
}

/// CERT-6: the injection is repeated if another writer changes the object between the read and the patch.
#[tokio::test(start_paused = true)]
async fn an_injection_into_an_object_that_has_changed_is_repeated() {
    for code in [409, 422] {
        let server = ApiServer::new();
        install(&server);
        let log = capture();
        let refused = Answer::code(code).times(3);
        server
            .faults()
            .answer(Verb::Patch, VALIDATING, refused)
            .keep();
        let _leading = lead(&server, &options(&server));
        until_settled(&server).await;
        assert!(!log.text().contains("WARN"), "{}", log.text());
    }
}

/// CERT-4, CERT-5
#[tokio::test(start_paused = true)]
async fn a_deleted_secret_is_made_anew_and_the_former_authority_stays_trusted_for_a_while() {
    let server = ApiServer::new();
    install(&server);
    let replica = options(&server);
    let _following = follow(&server, &replica);
    let _leading = lead(&server, &options(&server));
    until_settled(&server).await;
    until("the replica has it", || replica.certificate().is_set()).await;
    let (former, former_bundle) = (text(&server, "tls.crt"), text(&server, "ca.crt"));
    server.requests().clear();
    server.delete(SECRETS, "shop", "certificates").unwrap();
    until("there is a Secret", || secret(&server).is_some()).await;
    assert!(replica.certificate().is_set());
    assert_ne!(text(&server, "tls.crt"), former);
    trusted(&server).unwrap();
    for bundle in bundles(&server) {
        verify(&former, &bundle, server.now()).unwrap();
    }
    // The new authority was injected before any replica could read the new certificate.
    let requests = server.requests().all();
    let created = requests
        .iter()
        .position(|one| one.does(Verb::Create) && one.is_for(SECRETS));
    let patched = |resource: &str| {
        let mut requests = requests.iter();
        requests.position(|one| one.does(Verb::Patch) && one.is_for(resource))
    };
    for resource in [VALIDATING, MUTATING, DEFINITIONS] {
        assert!(patched(resource).unwrap() < created.unwrap(), "{resource}");
    }
    until_settled(&server).await;
    assert!(!text(&server, "ca.crt").contains(former_bundle.trim()));
    assert!(verify(&former, &text(&server, "ca.crt"), server.now()).is_err());
}

/// CERT-4: what is absent or damaged is replaced by the least change.
#[tokio::test(start_paused = true)]
async fn a_damaged_secret_is_repaired() {
    let server = ApiServer::new();
    install(&server);
    let _leading = lead(&server, &options(&server));
    until_settled(&server).await;
    let stranger = ApiServer::new();
    namespace(&stranger);
    let _elsewhere = lead(&stranger, &options(&stranger));
    until_settled(&stranger).await;
    let foreign = secret(&stranger).unwrap()["data"].clone();
    let cut = |key: &str| STANDARD.encode(&text(&server, key)[..80]);
    // Each case has a damage, and whether the rest of the Secret reveals it.
    let cases = [
        (json!({"tls.crt": ""}), true),
        (json!({"tls.crt": "", "tls.key": ""}), true),
        (json!({"tls.key": foreign["tls.key"]}), true),
        (
            json!({"tls.crt": foreign["tls.crt"], "tls.key": foreign["tls.key"]}),
            true,
        ),
        (json!({"ca.key": null}), true),
        (json!({"ca.key": foreign["ca.key"]}), true),
        (json!({"ca.crt": cut("ca.crt")}), true),
        (
            json!({"tls.crt": cut("tls.crt"), "ca.key": STANDARD.encode("no key")}),
            true,
        ),
        (json!({"next-ca.key": foreign["ca.key"]}), true),
        (
            json!({"tls.crt": "", "tls.key": "", "ca.crt": null, "ca.key": null}),
            false,
        ),
        (foreign, false),
    ];
    for (case, is_logged) in cases {
        let log = capture();
        damage(&server, &case);
        assert!(settled(&server).is_err(), "{case}");
        until_settled(&server).await;
        let text = log.text();
        assert_eq!(text.contains("are damaged"), is_logged, "{case} {text}");
    }
}

/// CERT-5: a replica keeps its certificate while the Secret cannot be used.
#[tokio::test(start_paused = true)]
async fn a_replica_keeps_its_certificate_while_the_secret_cannot_be_used() {
    let server = ApiServer::new();
    namespace(&server);
    let (replica, registry) = (options(&server), Registry::new());
    let replica = replica.metrics(AuthorityMetrics::register(&registry).unwrap());
    let log = capture();
    let following = follow(&server, &replica);
    let leading = lead(&server, &options(&server));
    until("the replica has it", || replica.certificate().is_set()).await;
    drop(leading);
    damage(&server, &json!({"tls.crt": ""}));
    until("the replica has noticed", || {
        log.text().contains("tls.crt is missing")
    })
    .await;
    server.delete(SECRETS, "shop", "certificates").unwrap();
    until("the replica has noticed", || log.text().contains("is gone")).await;
    let refused = server
        .faults()
        .answer(Verb::Get, SECRETS, Answer::code(403));
    until("the replica has noticed", || {
        log.text()
            .contains("the webhook certificate cannot be read")
    })
    .await;
    assert!(replica.certificate().is_set());
    // A problem that lasts is logged only once.
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(log.text().matches("WARN").count(), 3, "{}", log.text());
    drop(refused);
    let metrics = metrics_text(&registry);
    let errors = "steersman_webhook_certificate_errors_total ";
    assert!(
        !metrics.contains(&format!("{errors}0")) && metrics.contains(errors),
        "{metrics}"
    );
    drop(following);
}

fn metrics_text(registry: &Registry) -> String {
    let mut text = Vec::new();
    TextEncoder::new()
        .encode(&registry.gather(), &mut text)
        .unwrap();
    String::from_utf8(text).unwrap()
}

/// CERT-1: an authority that some configuration lacks signs nothing.
#[tokio::test(start_paused = true)]
async fn a_rotation_waits_for_a_configuration_that_cannot_be_patched() {
    let server = ApiServer::new();
    install(&server);
    let registry = Registry::new();
    let metrics = AuthorityMetrics::register(&registry).unwrap();
    let leader = options(&server).metrics(metrics);
    let _loops = [lead(&server, &leader), follow(&server, &leader)];
    until_settled(&server).await;
    let leaf = text(&server, "tls.crt");
    let log = capture();
    let refused = server
        .faults()
        .answer(Verb::Patch, MUTATING, Answer::code(403));
    damage(&server, &json!({"ca.key": null}));
    until("the rotation begins", || phase(&server) == "introduced").await;
    tokio::time::sleep(HOUR / 2).await;
    assert_eq!(phase(&server), "introduced");
    assert_eq!(text(&server, "tls.crt"), leaf);
    let line = "the authorities of the webhooks cannot be injected";
    assert_eq!(log.text().matches(line).count(), 1, "{}", log.text());
    drop(refused);
    until_settled(&server).await;
    assert_ne!(text(&server, "tls.crt"), leaf);
    let metrics = metrics_text(&registry);
    for line in [
        "steersman_webhook_certificate_rotations_total{what=\"authority\"} 2",
        "steersman_webhook_certificate_rotations_total{what=\"leaf\"} 2",
    ] {
        assert!(metrics.contains(line), "{line} is not in {metrics}");
    }
    let expiry = "steersman_webhook_certificate_expiry_timestamp_seconds ";
    assert!(
        !metrics.contains(&format!("{expiry}0")) && metrics.contains(expiry),
        "{metrics}"
    );
}

/// Polls a future `polls` times at most, and then drops it.
async fn cut(work: impl Future<Output = ()>, mut polls: u64) {
    let mut work = pin!(work);
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(());
        }
        polls -= 1;
        work.as_mut().poll(context)
    })
    .await;
}

/// CERT-1, CERT-2
#[test]
fn leaders_that_are_killed_in_the_middle_of_a_rotation_finish_it() {
    let again = "STEERSMAN_SEEDS=N..N+1 cargo test -p steersman-webhook leaders_that_are_killed, where N is";
    seeds::live(0..16, again, |seed| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(killed_leaders(seed));
    });
}

async fn killed_leaders(seed: u64) {
    let server = ApiServer::new();
    install(&server);
    let replicas = [options(&server), options(&server)];
    let _following = replicas.each_ref().map(|replica| follow(&server, replica));
    let leading = lead(&server, &replicas[0]);
    until_settled(&server).await;
    drop(leading);
    let first = text(&server, "ca.crt");
    damage(&server, &json!({"ca.key": null}));
    let mut rng = SeededRng::new(seed);
    let mut terms = 0;
    while settled(&server).is_err() || text(&server, "ca.crt") == first {
        terms += 1;
        assert!(terms < 500, "the phase is still {}", phase(&server));
        let polls = if rng.chance(60) { 20 } else { 500 };
        let replica = rng.pick(&replicas);
        let client_config = connect(&server);
        cut(
            replica.lead(&client_config, CancellationToken::new()),
            rng.below(polls),
        )
        .await;
        trusted(&server).unwrap();
        tokio::time::sleep(Duration::from_secs(rng.below(30))).await;
    }
    assert!(
        replicas
            .iter()
            .all(|replica| replica.certificate().is_set())
    );
}

/// A certificate verifier that accepts every certificate.
struct Permissive;

impl Validator<Site> for Permissive {
    async fn validate_create(&self, _: &Site, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }

    async fn validate_update(
        &self,
        _: &Site,
        _: &Site,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

/// Serves a webhook with the certificate of a replica. Also returns the path of the webhook.
async fn serve(options: &BuiltInCertificates) -> (Running, String) {
    let webhooks = WebhookServer::new("127.0.0.1:0")
        .tls(TlsOptions::shared(options.certificate()))
        .validator::<Site>(Permissive);
    let path = webhooks.paths().first().unwrap().clone();
    (Running::serve(&webhooks).await, path)
}

/// Connects as an API server does that trusts this bundle.
async fn shake_hands(address: SocketAddr, bundle: &str) -> Result<(), String> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots(bundle)?)
        .with_no_client_auth();
    let name = ServerName::try_from("hooks.shop.svc").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name, stream).await;
    connected.map(drop).map_err(|error| error.to_string())
}

/// CERT-1: a rotation over HTTPS in real time.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_is_refused_while_the_authority_is_replaced() {
    let world = World::new();
    let server = &world.server;
    namespace(server);
    let key = |name| ObjectKey::namespaced("shop", name);
    let clock = server.clone();
    let options = BuiltInCertificates::new(key("certificates"), key("hooks"))
        .overlap(Duration::from_secs(1))
        .read_interval(Duration::from_millis(50))
        .inject_into_validating("hooks")
        .clock(move || clock.now());
    let (running, path) = serve(&options).await;
    let address = running.address;
    server.route_service("shop", "hooks", 443, &format!("https://{address}"));
    let mut hooks = configuration("ValidatingWebhookConfiguration");
    for index in 0..2 {
        hooks["webhooks"][index]["clientConfig"]["service"]["path"] = json!(path);
    }
    server.create(hooks).unwrap();
    let refused = world.create(&site("early", &json!({"host": "a"}))).await;
    assert_eq!(refused.code, 500, "{}", refused.body);

    let _loops = [follow(server, &options), lead(server, &options)];
    until("the certificate is there", || {
        options.certificate().is_set() && settled(server).is_ok()
    })
    .await;
    let first = text(server, "ca.crt");
    damage(server, &json!({"ca.key": null}));
    let mut writes = 0;
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    while settled(server).is_err() || text(server, "ca.crt") == first {
        tick.tick().await;
        let bundle = bundles(server).remove(0);
        shake_hands(address, &bundle).await.unwrap();
        let site = site(&format!("site-{writes}"), &json!({"host": "a"}));
        let answer = world.create(&site).await;
        assert_eq!(answer.code, 201, "write {writes}: {}", answer.body);
        writes += 1;
        assert!(writes < 100_000, "the phase is still {}", phase(server));
    }
    assert!(writes > 10);
}
