//! The server of webhooks in a manager: its certificate, its order and its readiness, in real time.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::Timestamp;
use rcgen::{CertificateParams, KeyPair};
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_manager::{Error, Group, runnable};
use steersman_object::ObjectKey;
use steersman_serve::{TlsOptions, dial_tls};
use steersman_testenv::eventually;
use steersman_webhook::{
    AdmissionContext, BuiltInCertificates, Conversions, Defaulter, Refusal, WebhookServer,
};
use tokio::sync::{mpsc, oneshot};

use crate::missing_kinds::Website;
use crate::probes::{get, reached, started_listening};
use crate::world::{Tell, add, manager_of, soon, start};

struct Nothing;

impl Defaulter<ConfigMap> for Nothing {
    async fn default(&self, _: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }
}

struct Adds;

impl Defaulter<ConfigMap> for Adds {
    async fn default(&self, object: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        let data = object.data.get_or_insert_default();
        data.insert("added".to_owned(), "yes".to_owned());
        Ok(())
    }
}

fn webhooks(tls: TlsOptions) -> WebhookServer {
    WebhookServer::new("127.0.0.1:0")
        .tls(tls)
        .defaulter::<ConfigMap>(Nothing)
}

/// ADMIT-5
#[tokio::test]
async fn a_manager_is_ready_only_while_its_webhooks_answer_a_handshake() {
    let server = ApiServer::new();
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .webhooks(webhooks(TlsOptions::self_signed()))
        .build()
        .unwrap();
    let (told, before) = oneshot::channel();
    let (go_on, released) = oneshot::channel::<()>();
    // This runnable delays the group of the webhooks.
    let first = runnable::from_fn("first", Group::HttpServers, |context| async move {
        told.send(()).unwrap();
        released.await.unwrap();
        context.ready();
        context.cancelled().await;
        Ok(())
    });
    manager.add(first.saying_when_ready()).unwrap();
    let listens = reached(&manager, Group::Caches);
    let started = start(&manager);
    soon(before).await.unwrap();
    let health = loop {
        match manager.health_address() {
            Some(address) => break address,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!(manager.webhook_address(), None);
    let (status, text) = get(health, "/readyz/webhook").await;
    assert_eq!(status, 500, "{text}");
    go_on.send(()).unwrap();
    soon(listens).await.unwrap();
    assert_eq!(get(health, "/readyz/webhook").await.0, 200);
    let address = manager.webhook_address().unwrap();
    dial_tls(address, Timestamp::now()).await.unwrap();
    started.stop().await.unwrap();
    assert!(dial_tls(address, Timestamp::now()).await.is_err());
}

/// ADMIT-5: as an API server sees it; the process goes on and serves the next certificate.
#[tokio::test]
async fn a_manager_with_an_expired_certificate_of_its_webhooks_is_not_ready() {
    let directory = tempfile::tempdir().unwrap();
    let write = |until: i32| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["hooks".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let chain = params.self_signed(&key).unwrap().pem();
        std::fs::write(directory.path().join("tls.crt"), chain).unwrap();
        std::fs::write(directory.path().join("tls.key"), key.serialize_pem()).unwrap();
    };
    write(2002);
    let server = ApiServer::new();
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .webhooks(webhooks(TlsOptions::directory(directory.path())))
        .build()
        .unwrap();
    // The server of the webhooks is in the group before the caches.
    let listens = reached(&manager, Group::Caches);
    let started = start(&manager);
    soon(listens).await.unwrap();
    let health = manager.health_address().unwrap();
    let (status, text) = get(health, "/readyz").await;
    assert_eq!(status, 500, "{text}");
    assert!(text.contains("[-]webhook failed"), "{text}");
    write(2400);
    let (status, text) = get(health, "/readyz/webhook").await;
    assert_eq!(status, 200, "{text}");
    started.stop().await.unwrap();
}

#[tokio::test]
async fn a_missing_certificate_of_the_webhooks_ends_the_manager_with_the_file() {
    let server = ApiServer::new();
    let manager = manager_of(&server)
        .webhooks(webhooks(TlsOptions::directory("/nowhere")))
        .build()
        .unwrap();
    let failed = soon(start(&manager).ended()).await.unwrap_err();
    let source = std::error::Error::source(&failed).unwrap().to_string();
    assert!(source.contains("/nowhere/tls.crt"), "{failed}: {source}");
}

#[tokio::test]
async fn webhooks_that_cannot_work_are_refused_when_the_manager_is_built() {
    let server = ApiServer::new();
    let twice = webhooks(TlsOptions::self_signed()).defaulter::<ConfigMap>(Nothing);
    let refused = manager_of(&server).webhooks(twice).build().unwrap_err();
    assert!(matches!(refused, Error::Server(_)), "{refused:?}");
}

/// HEALTH-2
#[tokio::test]
async fn a_kind_that_the_own_webhook_converts_does_not_keep_the_manager_from_being_ready() {
    // The server has no definition of websites, so that they never sync.
    let server = ApiServer::new();
    let conversions = Conversions::new().hub::<Website>();
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .webhooks(webhooks(TlsOptions::self_signed()).conversions(conversions))
        .build()
        .unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    add::<Website>(&manager, Tell(told));
    let started = started_listening(&manager).await;
    let informer = manager.cache().informer::<Website>().unwrap();
    let mut states = informer.state_changes();
    soon(states.wait_for(|state| state.is_degraded()))
        .await
        .unwrap();
    let health = manager.health_address().unwrap();
    let (status, text) = get(health, "/readyz/informers?verbose").await;
    assert_eq!(status, 200, "{text}");
    assert!(
        text.contains("websites.web.example.com: not_served"),
        "{text}"
    );
    started.stop().await.unwrap();
}

/// One call of the builder is enough: the manager makes the certificate of the webhooks and injects it.
#[tokio::test]
async fn webhooks_with_a_built_in_authority_need_no_other_set_up() {
    let server = ApiServer::new();
    server
        .create(json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "shop"},
            "webhooks": [{
                "name": "adds.shop.example.com",
                "clientConfig": {"service": {
                    "namespace": "default", "name": "hooks", "path": "/mutate--v1-configmap",
                }},
                "rules": [{
                    "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }],
        }))
        .unwrap();
    let key = |name| ObjectKey::namespaced("default", name);
    let certificates = BuiltInCertificates::new(key("hooks-certificates"), key("hooks"));
    let webhooks = WebhookServer::new("127.0.0.1:0")
        .certificates(certificates.inject_into_mutating("shop"))
        .defaulter::<ConfigMap>(Adds);
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .webhooks(webhooks)
        .build()
        .unwrap();
    let started = start(&manager);
    let ready = eventually("the manager is ready", || async {
        let health = manager.health_address().ok_or("no server of probes")?;
        match get(health, "/readyz").await {
            (200, _) => Ok(()),
            (_, text) => Err(text),
        }
    });
    ready.await.unwrap();
    let address = manager.webhook_address().unwrap();
    server.route_service("default", "hooks", 443, &format!("https://{address}"));
    let client = manager.client().clone();
    let created = eventually("the API server calls the webhook", || async {
        let object = ConfigMap {
            metadata: key("a").to_meta(),
            ..ConfigMap::default()
        };
        client
            .create(&object)
            .await
            .map_err(|error| error.to_string())
    });
    let created = created.await.unwrap();
    assert_eq!(created.data.as_ref().unwrap()["added"], "yes");
    started.stop().await.unwrap();
}
