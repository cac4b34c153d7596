//! Tests that a definition is written once, and only if it accepts all that the definition on the server accepts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_crds::{Crd, CrdPhase, Crds, Error};
use steersman_object::{Gvk, ObjectKey};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::util::MapRequestLayer;

use crate::world::*;

#[tokio::test(start_paused = true)]
async fn a_definition_is_written_once_and_served() {
    let server = ApiServer::new();
    let definitions = Crds::new().with(first_release());
    definitions.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(definitions.statuses()[0].phase, CrdPhase::Installed);
    create_sites(&server, 1);
    server.requests().clear();
    let again = Crds::new().with(first_release());
    again.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(writes(&server), 0);
    let wider = definition(&[version("v1alpha1", true, &["host", "title"])]);
    install(&server, wider).await;
    assert_eq!(writes(&server), 1);
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[tokio::test(start_paused = true)]
async fn a_definition_that_accepts_less_is_not_written() {
    let server = ApiServer::new();
    let wide = definition(&[version("v1alpha1", true, &["host", "title"])]);
    install(&server, wide).await;
    let before = present(&server);
    let other = definition(&[version("v1alpha1", true, &["host", "pages"])]);
    let definitions = Crds::new().with(other.clone());
    let error = definitions
        .install(&connect(&server), LIMIT)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Narrowed { .. }));
    let text = error.to_string();
    assert!(
        text.contains("v1alpha1.spec.title: the field is removed"),
        "{text}"
    );
    assert_eq!(definitions.statuses()[0].phase, CrdPhase::Refused);
    assert_eq!(present(&server), before);
    let accepted = Crd::new(&other).accept_narrowing("v1alpha1.spec.title");
    install(&server, accepted).await;
    let properties = &present(&server)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        ["spec"]["properties"];
    assert!(properties["pages"].is_object() && properties["title"].is_null());
}

/// DEF-2: a definition of a later release stays as it is.
#[tokio::test(start_paused = true)]
async fn the_definition_of_a_later_release_is_kept() {
    let server = ApiServer::new();
    install(&server, second_release()).await;
    let before = present(&server);
    let earlier = Crds::new().with(first_release());
    earlier.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(earlier.statuses()[0].phase, CrdPhase::Kept);
    assert_eq!(present(&server), before);
}

/// DEF-5: a definition is written at the version that was read.
#[tokio::test(start_paused = true)]
async fn an_injection_between_the_read_and_the_write_is_not_undone() {
    let server = ApiServer::new();
    let definition = |fields: &[&str]| {
        let definition = definition(&[version("v1alpha1", true, fields)]);
        Crd::new(&definition).converted_by(&ObjectKey::namespaced("shop", "hooks"))
    };
    let first = Crds::new().with(definition(&["host"]));
    first.install(&connect(&server), LIMIT).await.unwrap();
    // An authority is injected just before the first write of the second release.
    let (other, is_first) = (server.clone(), Arc::new(AtomicBool::new(true)));
    let client_config = connect(&server).layer(MapRequestLayer::new(move |request: http::Request<_>| {
        if *request.method() == "PATCH" && is_first.swap(false, Ordering::SeqCst) {
            let bundle = json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": BUNDLE}}}}});
            other.merge_patch(DEFINITIONS, "", NAME, &bundle).unwrap();
        }
        request
    }));
    let second = Crds::new().with(definition(&["host", "title"]));
    second.install(&client_config, LIMIT).await.unwrap();
    let webhook = &present(&server)["spec"]["conversion"]["webhook"];
    assert_eq!(webhook["clientConfig"]["caBundle"], BUNDLE);
    assert_eq!(writes(&server), 3);
}

/// A valid CA certificate, because the server checks the bundle.
const BUNDLE: &str = include_str!("bundle.txt");

#[tokio::test(start_paused = true)]
async fn the_operators_own_webhook_is_the_conversion_with_its_authority() {
    let server = ApiServer::new();
    let (authorities, receiver) = watch::channel(None);
    let kinds = [Gvk::new("example.com", "v1", "Site")];
    let service = ObjectKey::namespaced("shop", "hooks");
    let definitions = Crds::new().with(second_release());
    let definitions = definitions.converted_by(&kinds, &service, receiver);
    assert_eq!(definitions.converted(), [NAME]);
    let (client_config, led) = (connect(&server), definitions.clone());
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let leader = tokio::spawn(async move { led.lead(&client_config, stopped).await });
    // Installing waits for the authority, so that no conversion fails without it.
    server
        .requests()
        .wait_for(1, |request| request.is_for(DEFINITIONS))
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(writes(&server), 0);
    authorities.send_replace(Some(PEM.to_owned()));
    definitions.installed().await;
    let client = present(&server)["spec"]["conversion"]["webhook"]["clientConfig"].clone();
    assert_eq!(client["caBundle"], BUNDLE);
    assert_eq!(client["service"]["path"], "/convert");
    stop.cancel();
    leader.await.unwrap();
}

const PEM: &str = include_str!("bundle.pem");

/// DEF-6: controllers start only when the server serves each definition.
#[tokio::test(start_paused = true)]
async fn a_standby_says_that_its_definition_would_be_refused() {
    let server = ApiServer::new();
    let wide = definition(&[version("v1alpha1", true, &["host", "title"])]);
    install(&server, wide.clone()).await;
    let other = definition(&[version("v1alpha1", true, &["host", "pages"])]);
    let standby = Crds::new().with(other);
    let (client_config, followed) = (connect(&server), standby.clone());
    tokio::spawn(async move {
        followed
            .follow(&client_config, CancellationToken::new())
            .await
    });
    let refused = async {
        while standby.statuses()[0].phase != CrdPhase::Refused {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(LIMIT, refused).await.unwrap();
    assert_eq!(writes(&server), 1, "a standby writes nothing");
    // A user changes the definition on the server, so that the operator's can be installed.
    let both = definition(&[version("v1alpha1", true, &["host", "pages"])]);
    let both = Crd::new(&both).accept_narrowing("v1alpha1");
    install(&server, both).await;
    tokio::time::timeout(LIMIT, standby.installed())
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_goes_on_after_failures_and_names_what_it_needs() {
    let server = ApiServer::new();
    let fault = server
        .faults()
        .answer(Verb::Patch, DEFINITIONS, Answer::code(403).times(2));
    let definitions = Crds::new().with(first_release());
    let (client_config, led) = (connect(&server), definitions.clone());
    tokio::spawn(async move { led.lead(&client_config, CancellationToken::new()).await });
    tokio::time::timeout(LIMIT, definitions.installed())
        .await
        .unwrap();
    assert_eq!(fault.hits(), 2);
    assert_eq!(definitions.statuses()[0].problem, None);
}

#[tokio::test(start_paused = true)]
async fn a_definition_with_a_taken_name_is_not_served() {
    let server = ApiServer::new();
    install(&server, first_release()).await;
    let mut taken = serde_json::to_value(first_release()).unwrap();
    taken["metadata"]["name"] = json!("pages.example.com");
    taken["spec"]["names"] =
        json!({"kind": "Page", "plural": "pages", "singular": "site", "listKind": "PageList"});
    let taken: k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition =
        serde_json::from_value(taken).unwrap();
    let definitions = Crds::new().with(taken);
    let error = definitions
        .install(&connect(&server), LIMIT)
        .await
        .unwrap_err();
    assert!(matches!(error, Error::NotServed { .. }), "{error}");
    assert!(
        error.to_string().contains("NamesAccepted is false"),
        "{error}"
    );
}

/// DEF-6: controllers start only when the server serves each definition.
#[tokio::test(start_paused = true)]
async fn a_standby_is_no_longer_refused_when_its_definition_can_be_installed() {
    let server = ApiServer::new();
    let wide = definition(&[version("v1alpha1", true, &["host", "title"])]);
    install(&server, wide).await;
    let other = definition(&[version("v1alpha1", true, &["host", "pages"])]);
    let standby = Crds::new().with(other);
    let (client_config, followed) = (connect(&server), standby.clone());
    tokio::spawn(async move {
        followed
            .follow(&client_config, CancellationToken::new())
            .await
    });
    let until = |phase| {
        let standby = &standby;
        async move {
            while standby.statuses()[0].phase != phase {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    };
    tokio::time::timeout(LIMIT, until(CrdPhase::Refused))
        .await
        .unwrap();
    // A user removes the field from the definition on the server.
    let narrow = definition(&[version("v1alpha1", true, &["host"])]);
    let narrow = Crd::new(&narrow).accept_narrowing("v1alpha1.spec.title");
    install(&server, narrow).await;
    tokio::time::timeout(LIMIT, until(CrdPhase::Pending))
        .await
        .unwrap();
    assert_eq!(standby.statuses()[0].problem, None);
}

/// DEF-7: different versions of a kind need a conversion webhook.
#[tokio::test(start_paused = true)]
async fn versions_that_differ_are_never_installed_without_a_webhook() {
    let server = ApiServer::new();
    let renamed = definition(&[
        version("v1alpha1", false, &["domain"]),
        version("v1", true, &["host"]),
    ]);
    let definitions = Crds::new().with(renamed.clone());
    let installed = definitions.install(&connect(&server), LIMIT).await;
    let error = installed.unwrap_err();
    assert!(matches!(error, Error::Unconverted { .. }));
    let text = error.to_string();
    for part in [
        "v1alpha1 and v1 differ in spec.domain, spec.host",
        "newest_version_only",
    ] {
        assert!(text.contains(part), "{text}");
    }
    // The loops of a manager do not write the definition either.
    let stop = CancellationToken::new();
    let (client_config, led) = (connect(&server), definitions.clone());
    let stopped = stop.clone();
    let leader = tokio::spawn(async move { led.lead(&client_config, stopped).await });
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(definitions.statuses()[0].phase, CrdPhase::Refused);
    assert_eq!(writes(&server), 0);
    stop.cancel();
    leader.await.unwrap();
    // Each of the two remedies in the message works: a single version, or a webhook.
    let newest = Crds::new().with(renamed.clone());
    let newest = newest.newest_version_only();
    newest.install(&connect(&server), LIMIT).await.unwrap();
    assert_eq!(stored_versions(&server), json!(["v1"]));
    let hooks = ObjectKey::namespaced("shop", "hooks");
    install(&server, Crd::new(&renamed).converted_by(&hooks)).await;
    assert_eq!(
        present(&server)["spec"]["conversion"]["strategy"],
        "Webhook"
    );
}

/// DEF-1: no write of a definition may lose a field or a stored version.
#[tokio::test(start_paused = true)]
async fn the_newest_version_alone_is_refused_while_objects_may_be_stored_in_another() {
    let server = ApiServer::new();
    install(&server, first_release()).await;
    create_sites(&server, 1);
    let newest = Crd::new(&second_release()).newest_version_only();
    let definitions = Crds::new().with(newest);
    let installed = definitions.install(&connect(&server), LIMIT).await;
    assert!(matches!(installed.unwrap_err(), Error::Narrowed { .. }));
    assert_eq!(stored_versions(&server), json!(["v1alpha1"]));
}
