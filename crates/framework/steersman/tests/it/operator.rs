//! A whole operator over the embedded api-server: an object is created, changed and deleted.

use k8s_openapi::api::core::v1::ConfigMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use steersman::finalizer::FinalizerStage;
use steersman::kube_core::CustomResourceExt as _;
use steersman::{
    Action, ClientConfig, Context, Controller, CustomResource, Error, Manager, Reconciler, Request,
    finalizer, predicate,
};
use steersman_apiserver::ApiServer;
use tokio::sync::oneshot;

#[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
#[kube(
    group = "hello.example.com",
    version = "v1",
    kind = "Greeting",
    namespaced
)]
#[kube(status = "GreetingStatus")]
struct GreetingSpec {
    text: String,
}

#[derive(Serialize, Deserialize, Clone, Debug, Default, JsonSchema)]
struct GreetingStatus {
    published: String,
}

const CLEANUP: &str = "hello.example.com/cleanup";

struct Publisher;

impl Reconciler for Publisher {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(greeting) = client.get_opt::<Greeting>(&request.key).await? else {
            return Ok(Action::done());
        };
        match finalizer::stage(&*greeting, CLEANUP) {
            FinalizerStage::Released => return Ok(Action::done()),
            FinalizerStage::CleanUp => {
                if let Some(config) = client.live().get_opt::<ConfigMap>(&request.key).await? {
                    client.delete(&config).await?;
                }
                client.remove_finalizer(&*greeting, CLEANUP).await?;
                return Ok(Action::done());
            }
            FinalizerStage::Missing => {
                client.add_finalizer(&*greeting, CLEANUP).await?;
            }
            FinalizerStage::Held => {}
        }
        let text = greeting.spec.text.clone();
        let publish = |config: &mut ConfigMap| {
            config
                .data
                .get_or_insert_default()
                .insert("text".to_owned(), text.clone());
        };
        let published = client
            .ensure(&request.key, publish)
            .owned_by(&*greeting)
            .await?;
        let uid = published.object().metadata.uid.clone().unwrap_or_default();
        let say_so = |greeting: &mut Greeting| {
            greeting.status.get_or_insert_default().published = uid.clone();
        };
        client.status().modify(&*greeting, say_so).await?;
        Ok(Action::done())
    }
}

fn greeting(text: &str) -> Value {
    json!({
        "apiVersion": "hello.example.com/v1", "kind": "Greeting",
        "metadata": {"name": "hello", "namespace": "default"}, "spec": {"text": text},
    })
}

/// Waits until the state of the server fits. It looks again after each request.
async fn until(server: &ApiServer, fits: impl Fn(&ApiServer) -> bool) {
    let mut requests = server.requests().all().len();
    while !fits(server) {
        requests += 1;
        let next = server.requests().wait_for(requests, |_| true);
        tokio::time::timeout(std::time::Duration::from_secs(600), next)
            .await
            .unwrap();
    }
}

fn text(server: &ApiServer) -> Option<Value> {
    Some(server.get("configmaps", "default", "hello")?["data"]["text"].clone())
}

fn published(server: &ApiServer) -> Option<Value> {
    let config = server.get("configmaps", "default", "hello")?;
    let greeting = server.get("greetings.hello.example.com", "default", "hello")?;
    Some((greeting["status"]["published"] == config["metadata"]["uid"]).into())
}

#[tokio::test(start_paused = true)]
async fn an_operator_creates_restores_and_deletes_the_child_of_an_object() {
    let server = ApiServer::new();
    server
        .install_crd(serde_json::to_value(Greeting::crd()).unwrap())
        .unwrap();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let manager = Manager::builder(client_config).build().unwrap();
    manager
        .add_controller(
            Controller::builder::<Greeting>()
                .with_predicates(predicate::generation_changed())
                .owns::<ConfigMap>()
                .build(Publisher)
                .unwrap(),
        )
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let shutdown = steersman::manager::Shutdown::when(async { drop(stopped.await) });
    let running = tokio::spawn(async move { manager.start(shutdown).await });

    server.create(greeting("hello")).unwrap();
    until(&server, |s| text(s) == Some("hello".into())).await;
    until(&server, |s| published(s) == Some(true.into())).await;

    // The spec changes; the child is deleted.
    let change = json!({"spec": {"text": "good day"}});
    server
        .merge_patch("greetings.hello.example.com", "default", "hello", &change)
        .unwrap();
    until(&server, |s| text(s) == Some("good day".into())).await;
    server.delete("configmaps", "default", "hello").unwrap();
    until(&server, |s| published(s) == Some(true.into())).await;

    // The finalizer holds the object until its ConfigMap is gone.
    server
        .delete("greetings.hello.example.com", "default", "hello")
        .unwrap();
    let gone = |s: &ApiServer| {
        s.get("greetings.hello.example.com", "default", "hello")
            .is_none()
    };
    until(&server, gone).await;
    assert!(server.get("configmaps", "default", "hello").is_none());

    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
}
