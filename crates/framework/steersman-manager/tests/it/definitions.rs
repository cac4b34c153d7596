//! Definitions that the leader of a manager installs before its controllers start.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_core::CustomResourceExt as _;
use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_crds::{Crd, CrdPhase, Crds};
use steersman_lease::LeaderElection;
use steersman_manager::{Error, Manager};
use steersman_object::ObjectKey;
use steersman_serve::TlsOptions;
use steersman_testenv::eventually;
use steersman_testenv::log::capture;
use steersman_webhook::{Conversions, WebhookServer};
use tokio::sync::mpsc;

use crate::missing_kinds::Website;
use crate::probes::{get, started_listening};
use crate::world::{Tell, add, config_map, manager_of, soon, start};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

fn with_definition(server: &ApiServer) -> Manager {
    let definitions = Crds::new().with(Website::crd());
    manager_of(server).crds(definitions).build().unwrap()
}

/// DEF-6
#[tokio::test(start_paused = true)]
async fn controllers_start_when_the_definitions_are_installed() {
    let server = ApiServer::new();
    server.create(config_map("one")).unwrap();
    let fault = server
        .faults()
        .answer(Verb::Patch, DEFINITIONS, Answer::code(503));
    let manager = with_definition(&server);
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told));
    let started = start(&manager);
    // The informer has synced long ago.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(reconciled.try_recv().is_err());
    let status = &manager.crds().statuses()[0];
    assert_eq!(status.phase, CrdPhase::Pending);
    assert!(status.problem.is_some());
    drop(fault);
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/one");
    assert_eq!(manager.crds().statuses()[0].phase, CrdPhase::Installed);
    started.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_first_start_of_an_operator_reconciles_its_own_kind() {
    let log = capture();
    let server = ApiServer::new();
    let manager = with_definition(&server);
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<Website>(&manager, Tell(told));
    let started = start(&manager);
    soon(manager.crds().installed()).await;
    let site = json!({"apiVersion": Website::api_resource().api_version, "kind": "Website",
        "metadata": {"name": "a", "namespace": "default"}, "spec": {"image": "nginx"}});
    server.create(site).unwrap();
    assert_eq!(soon(reconciled.recv()).await.unwrap(), "default/a");
    let text = log.text();
    assert!(!text.contains("WARN"), "{text}");
    assert!(
        text.contains("cannot be listed before this operator"),
        "{text}"
    );
    started.stop().await.unwrap();
}

/// HEALTH-2
#[tokio::test]
async fn a_standby_of_the_next_release_is_ready_before_its_definition_is_installed() {
    let server = ApiServer::new();
    // Another replica, of the former release, leads.
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"holderIdentity": "former", "leaseDurationSeconds": 3600,
            "renewTime": "2026-01-01T00:00:00.000000Z"},
    });
    server.create(lease).unwrap();
    let definitions = Crds::new().with(Website::crd());
    let manager = manager_of(&server)
        .health("127.0.0.1:0")
        .leader_election(LeaderElection::new("shop").namespace("default"))
        .crds(definitions)
        .build()
        .unwrap();
    let (told, _reconciled) = mpsc::unbounded_channel();
    add::<Website>(&manager, Tell(told));
    let started = started_listening(&manager).await;
    let health = manager.health_address().unwrap();
    let ready = eventually("the standby is ready", || async {
        match get(health, "/readyz?verbose").await {
            (200, _) => Ok(()),
            (_, text) => Err(text),
        }
    });
    ready.await.unwrap();
    assert_eq!(manager.crds().statuses()[0].phase, CrdPhase::Pending);
    started.stop().await.unwrap();
}

/// DEF-6
#[tokio::test(start_paused = true)]
async fn a_manager_with_a_refused_definition_is_not_ready_and_stops_in_order() {
    let server = ApiServer::new();
    let mut other = serde_json::to_value(Website::crd()).unwrap();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "other": {"type": "string"},
    }}}});
    other["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
    server.install_crd(other).unwrap();
    let manager = with_definition(&server);
    let (told, mut reconciled) = mpsc::unbounded_channel();
    add::<ConfigMap>(&manager, Tell(told));
    server.create(config_map("one")).unwrap();
    let started = start(&manager);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let status = manager.crds().statuses().remove(0);
    assert_eq!(status.phase, CrdPhase::Refused);
    let problem = status.problem.unwrap();
    assert!(problem.contains("v1.spec.other"), "{problem}");
    started.stop().await.unwrap();
    assert!(reconciled.try_recv().is_err());
}

#[test]
fn a_definition_that_cannot_be_installed_is_refused_when_the_manager_is_built() {
    let server = ApiServer::new();
    let mut definition = Website::crd();
    definition.metadata.name = Some("other.example.com".to_owned());
    let definitions = Crds::new().with(definition);
    let refused = manager_of(&server).crds(definitions).build();
    assert!(matches!(refused.unwrap_err(), Error::Definition(_)));
}

#[test]
fn converted_kinds_need_a_definition_that_names_the_webhook() {
    let server = ApiServer::new();
    let mut both = Website::crd();
    let mut second = both.spec.versions[0].clone();
    "v1beta1".clone_into(&mut second.name);
    second.storage = false;
    both.spec.versions.push(second);
    let build = |definition: Crd| {
        let webhooks = WebhookServer::new("127.0.0.1:0")
            .tls(TlsOptions::self_signed())
            .conversions(Conversions::new().hub::<Website>());
        let definitions = Crds::new().with(definition);
        manager_of(&server)
            .webhooks(webhooks)
            .crds(definitions)
            .build()
    };
    let refused = build(Crd::new(&both)).unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("converted_by"), "{source}");
    let service = ObjectKey::namespaced("default", "hooks");
    assert!(build(Crd::new(&both).converted_by(&service)).is_ok());
}
