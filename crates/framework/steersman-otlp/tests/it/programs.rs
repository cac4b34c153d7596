//! Tests the flags of a program with the feature `otlp`.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::{Api, ClientConfig, WriteOptions};
use steersman_apiserver::ApiServer;
use steersman_cli::Program;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_manager::Shutdown;
use steersman_object::report;
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::collector::Collector;
use crate::world::LIMIT;

struct Notifies(Arc<Notify>);

impl Reconciler for Notifies {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        self.0.notify_one();
        Ok(Action::done())
    }
}

fn program(reconciled: &Arc<Notify>) -> Program {
    let reconciler = Notifies(Arc::clone(reconciled));
    Program::new("greeter", "1.2.3").setup(|manager, _| {
        let controller = Controller::builder::<ConfigMap>().build(reconciler)?;
        Ok(manager.add_controller(controller)?)
    })
}

// A process has only one subscriber: no other test of this binary sets that of the process.
#[tokio::test]
async fn a_program_exports_its_traces_before_it_ends() {
    let collector = Collector::start().await;
    let server = ApiServer::new();
    let client_config = ClientConfig::in_process(server.service(), "default");
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some("hello".to_owned());
    let maps = Api::<ConfigMap>::typed(client_config.client().unwrap());
    maps.create(&map, &WriteOptions::new()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    serving.write_kubeconfig(&kubeconfig).unwrap();
    let reconciled = Arc::new(Notify::new());
    let words = [
        "greeter".to_owned(),
        "--health-probe-bind-address=0".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--otlp-endpoint={}", collector.endpoint),
        "--otlp-sample-ratio=1".to_owned(),
    ];
    let stop = Arc::clone(&reconciled);
    let shutdown = Shutdown::when(async move { stop.notified().await });
    let running = program(&reconciled).run_with(words, shutdown);
    timeout(LIMIT, running).await.unwrap().unwrap();
    serving.stop().await;
    assert_eq!(collector.paths()[0], "/v1/traces");
    let resource = collector.resource();
    let name_and_version =
        ["service.name", "service.version"].map(|name| resource.get(name).map(String::as_str));
    assert_eq!(name_and_version, [Some("greeter"), Some("1.2.3")]);
    assert_eq!(resource["telemetry.sdk.language"], "rust");
    let spans = collector.spans();
    let reconciles = spans
        .iter()
        .filter(|span| span.name == "reconcile configmap");
    let objects = reconciles.map(|span| span.attribute("steersman.object.name"));
    assert!(
        objects.into_iter().any(|name| name == Some("hello")),
        "{spans:#?}"
    );
}

#[tokio::test]
async fn a_wrong_endpoint_ends_the_program_with_an_error_that_names_it() {
    let words = ["greeter", "--otlp-endpoint=collector:4318"];
    let stopped = Shutdown::when(std::future::ready(()));
    let ended = program(&Arc::default()).run_with(words, stopped).await;
    let error = report(&ended.unwrap_err()).to_string();
    assert!(error.contains("traces cannot be exported"), "{error}");
    assert!(
        error.contains("\"collector:4318\"") && error.contains("http://HOST:PORT"),
        "{error}"
    );
}
