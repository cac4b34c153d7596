//! The middleware of a connection: layers, warnings, the name of the program.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::client::Body;
use kube_core::DynamicObject;
use parking_lot::Mutex;
use serde_json::json;
use steersman_api::wire::Wire;
use steersman_api::{Api, ClientConfig, FieldValidation, Paging, WriteOptions};
use steersman_apiserver::ApiServer;
use steersman_object::{Kind, ListOptions, ObjectKey};
use tower::layer::layer_fn;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

/// A layer that records the paths of requests, each with the name of the layer.
fn noting(
    name: &'static str,
    seen: &Arc<Mutex<Vec<String>>>,
) -> impl tower::Layer<Wire, Service = Wire> + Send + Sync + 'static {
    let seen = Arc::clone(seen);
    layer_fn(move |wire: Wire| {
        let seen = Arc::clone(&seen);
        let noted = wire.map_request(move |request: Request<Body>| {
            seen.lock().push(format!("{name} {}", request.uri().path()));
            request
        });
        noted.boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn every_request_passes_the_layers_the_last_added_first() {
    let server = ApiServer::builder().seed(1).build();
    let seen = Arc::default();
    let client_config = ClientConfig::in_process(server.service(), "default")
        .layer(noting("inner", &seen))
        .layer(noting("outer", &seen));
    for _ in 0..2 {
        let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
        api.list(&ListOptions::new().namespace("default"), &Paging::new())
            .await
            .unwrap();
    }
    let path = "/api/v1/namespaces/default/configmaps";
    let both = [format!("outer {path}"), format!("inner {path}")];
    assert_eq!(*seen.lock(), [both.clone(), both].concat());
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_answers_or_panics_affects_only_that_request() {
    let server = ApiServer::builder().seed(1).build();
    let layer = layer_fn(|wire: Wire| {
        let mut wire = wire;
        tower::service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            assert!(!path.ends_with("/panic"), "the layer broke");
            let here = path.ends_with("/here");
            let answer = (!here).then(|| tower::Service::call(&mut wire, request));
            async move {
                match answer {
                    Some(answer) => answer.await,
                    None => {
                        let body = http_body_util::Full::new(Bytes::from_static(b"{}"));
                        let body = http_body_util::BodyExt::map_err(body, |never| match never {});
                        let body = http_body_util::combinators::UnsyncBoxBody::new(body);
                        let answer = Response::builder().status(503).body(body);
                        Ok::<_, BoxError>(answer.unwrap())
                    }
                }
            }
        })
    });
    let client_config = ClientConfig::in_process(server.service(), "default").layer(layer);
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    assert_eq!(api.get(&key("here")).await.unwrap_err().code(), Some(503));
    let error = api.get(&key("panic")).await.unwrap_err();
    assert!(error.is_transport(), "{error}");
    assert!(error.to_string().contains("the layer broke"), "{error}");
    // The client is still usable.
    assert!(api.get_opt(&key("a")).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stack_of_tower_layers_is_accepted() {
    let server = ApiServer::builder().seed(1).build();
    let stack = ServiceBuilder::new()
        .map_request(|mut request: Request<Body>| {
            request
                .headers_mut()
                .insert("user-agent", "named/by-a-layer".parse().unwrap());
            request
        })
        .map_err(|error: BoxError| error)
        .into_inner();
    let client_config = ClientConfig::in_process(server.service(), "default").layer(stack);
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    assert!(api.get_opt(&key("a")).await.unwrap().is_none());
    assert_eq!(server.requests().all()[0].user_agent, "named/by-a-layer");
}

#[tokio::test(start_paused = true)]
async fn the_user_agent_names_the_program() {
    let server = ApiServer::builder().seed(1).build();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let named = client_config
        .clone()
        .user_agent("website-operator", "1.4.2");
    assert_eq!(named.program(), "website-operator");
    let part = named.clone().user_agent_suffix("leader-election");
    assert_eq!(part.program(), "website-operator");
    for client_config in [&client_config, &named, &part] {
        let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
        assert!(api.get_opt(&key("a")).await.unwrap().is_none());
    }
    let all = server.requests().all();
    assert!(all[0].user_agent.contains("/steersman-"), "{}", all[0]);
    assert!(
        all[1].user_agent.starts_with("website-operator/1.4.2 (")
            && all[1].user_agent.contains(") steersman/"),
        "{}",
        all[1].user_agent
    );
    assert!(
        all[2].user_agent.ends_with("/leader-election"),
        "{}",
        all[2]
    );
    // The program's name is the server's default field manager.
    let api: Api<ConfigMap> = Api::typed(named.client().unwrap());
    let map = ConfigMap {
        metadata: key("a").to_meta(),
        data: Some([("k".to_owned(), "v".to_owned())].into()),
        ..ConfigMap::default()
    };
    let created = api.create(&map, &WriteOptions::new()).await.unwrap();
    let managers = created.metadata.managed_fields.unwrap();
    assert_eq!(managers[0].manager.as_deref(), Some("website-operator"));
}

#[tokio::test(start_paused = true)]
async fn a_warning_calls_the_hook_each_time_and_is_logged_once() {
    let server = ApiServer::builder().seed(1).build();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&heard);
    let client_config =
        ClientConfig::in_process(server.service(), "default").on_warning(move |warning| {
            hook.lock()
                .push(format!("{}: {}", warning.request, warning.text));
        });
    let api: Api<DynamicObject> =
        Api::new(client_config.client().unwrap(), Kind::of::<ConfigMap>());
    let odd = |name: &str| -> DynamicObject {
        serde_json::from_value(json!({"metadata": key(name).to_meta(), "dta": {"k": "v"}})).unwrap()
    };
    for name in ["a", "b"] {
        api.create(&odd(name), &WriteOptions::new()).await.unwrap();
    }
    let said = "POST /api/v1/namespaces/default/configmaps: unknown field \"dta\"";
    assert_eq!(*heard.lock(), [said, said]);

    let strict = WriteOptions::new().field_validation(FieldValidation::Strict);
    let error = api.create(&odd("c"), &strict).await.unwrap_err();
    assert_eq!(error.code(), Some(400), "{error}");
    let ignore = WriteOptions::new().field_validation(FieldValidation::Ignore);
    api.create(&odd("c"), &ignore).await.unwrap();
    assert_eq!(heard.lock().len(), 2);
    let asked: Vec<_> = server
        .requests()
        .matching(|r| r.parameter("fieldValidation").is_some());
    let asked: Vec<_> = asked
        .iter()
        .filter_map(|r| r.parameter("fieldValidation"))
        .collect();
    assert_eq!(asked, ["Strict", "Ignore"]);
}

/// MGR-7
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_hook_or_layer_affects_only_its_request() {
    let server = ApiServer::builder().seed(1).build();
    let heard = Arc::new(Mutex::new(0));
    let hook = Arc::clone(&heard);
    let client_config = ClientConfig::in_process(server.service(), "default")
        .on_warning(|warning| panic!("cannot hear {}", warning.text))
        .on_warning(move |_| *hook.lock() += 1);
    let api: Api<DynamicObject> =
        Api::new(client_config.client().unwrap(), Kind::of::<ConfigMap>());
    let odd: DynamicObject =
        serde_json::from_value(json!({"metadata": key("a").to_meta(), "dta": {"k": "v"}})).unwrap();
    api.create(&odd, &WriteOptions::new()).await.unwrap();
    assert_eq!(*heard.lock(), 1);

    // A layer may panic in `call` or in its future.
    let fragile = layer_fn(|wire: Wire| {
        let fragile = wire.and_then(|answer: Response<_>| async move {
            assert!(answer.status() != 404, "no page");
            Ok(answer)
        });
        Wire::new(fragile)
    });
    let client_config = client_config.layer(fragile);
    let api: Api<ConfigMap> = Api::typed(client_config.client().unwrap());
    let error = api.get_opt(&key("gone")).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("a layer on the connection panicked: no page"),
        "{error}"
    );
    assert!(api.get_opt(&key("a")).await.unwrap().is_some());
}
