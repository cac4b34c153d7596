//! Every error text that the guide quotes is one that the code produces.

use std::error::Error as StdError;
use std::future::pending;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde_json::{Value, json};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};

use crate::api::Patch;
use crate::kube_core::CustomResourceExt as _;
use crate::manager::{Group, Shutdown, runnable};
use crate::{
    Action, ByObject, CacheOptions, Client, ClientConfig, Context, Controller, CustomResource,
    Error, ListOptions, Manager, ObjectKey, Reconciler, Request, owner,
};

const PAGES: [&str; 2] = [
    include_str!("../../guide/troubleshooting.md"),
    include_str!("../../guide/reconcilers.md"),
];

/// The beginnings of quoted log lines, which are no errors.
const LOGGED: [&str; 3] = ["WARN ", "INFO ", "ERROR "];
/// The ends of cells with texts that no call of this test can produce.
const ELSEWHERE: [&str; 3] = ["(of the compiler)", "(of a dead link)", "(of a proxy)"];

#[derive(
    CustomResource, serde::Serialize, serde::Deserialize, Clone, Debug, schemars::JsonSchema,
)]
#[kube(
    group = "hello.example.com",
    version = "v1",
    kind = "Greeting",
    namespaced
)]
struct GreetingSpec {
    text: String,
}

struct Nothing;

impl Reconciler for Nothing {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

struct Stubborn;

impl Reconciler for Stubborn {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        pending().await
    }
}

/// The error texts that the calls of this test produced, with their causes.
#[derive(Default)]
struct Said(Vec<String>);

impl Said {
    fn note<T, E: StdError>(&mut self, what: &str, result: Result<T, E>) {
        let Err(error) = result else {
            panic!("{what}: no error");
        };
        let mut next: Option<&dyn StdError> = Some(&error);
        while let Some(error) = next {
            self.0.push(error.to_string());
            next = error.source();
        }
    }

    /// Returns whether a message has all parts of a quote, in their order.
    fn has(&self, quote: &str) -> bool {
        self.0.iter().any(|message| {
            let mut rest = message.as_str();
            quote
                .split('…')
                .all(|part| match rest.split_once(part.trim()) {
                    Some((_, after)) => {
                        rest = after;
                        true
                    }
                    None => false,
                })
        })
    }
}

#[test]
fn quoted_errors_equal_the_errors_of_the_code() {
    let runtime = |paused: bool| {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().start_paused(paused).build().unwrap()
    };
    let mut said = Said::default();
    runtime(false).block_on(connecting(&mut said));
    runtime(true).block_on(async {
        let server = ApiServer::new();
        declaring(&mut said, &server).await;
        starting(&mut said, &server).await;
        server
            .install_crd(serde_json::to_value(Greeting::crd()).unwrap())
            .unwrap();
        reading(&mut said, &server).await;
        writing(&mut said, &server).await;
        stopping(&mut said, &server).await;
    });
    assert!(quotes().count() > 30, "the tables are not found");
    let unsaid: Vec<&str> = quotes().filter(|quote| !said.has(quote)).collect();
    assert!(unsaid.is_empty(), "{unsaid:#?}\nof\n{:#?}", said.0);
}

/// Returns the quoted texts: the code spans in the first cells of the first page, and in the table
/// of refusals of the second.
fn quotes() -> impl Iterator<Item = &'static str> {
    let cells = |page: &'static str, at: usize| {
        let rows = page.lines().filter(|line| line.starts_with("| "));
        rows.filter_map(move |row| row.split(" | ").nth(at))
    };
    let first = cells(PAGES[0], 0).map(|cell| cell.trim_start_matches("| "));
    let refusals = cells(PAGES[1], 1).filter(|cell| cell.starts_with("`default/"));
    let of_this = |cell: &&str| !ELSEWHERE.iter().any(|of| cell.trim_end().ends_with(of));
    let cells = first.chain(refusals).filter(of_this);
    let spans = cells.flat_map(|cell| {
        // A cell in doubled backticks quotes a text that holds single ones.
        match cell.split("``").nth(1) {
            Some(span) => vec![span],
            None => cell.split('`').skip(1).step_by(2).collect(),
        }
    });
    spans.filter(|span| !LOGGED.iter().any(|level| span.starts_with(level)))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}

fn client_config(server: &ApiServer) -> ClientConfig {
    ClientConfig::in_process(server.service(), "default")
}

fn manager(server: &ApiServer, options: CacheOptions) -> Manager {
    Manager::builder(client_config(server))
        .cache(options)
        .build()
        .unwrap()
}

async fn connecting(said: &mut Said) {
    let looked_at = "KUBECONFIG, KUBERNETES_SERVICE_HOST, ~/.kube/config".to_owned();
    said.note(
        "no configuration",
        Err::<(), _>(crate::api::Error::NoConfig { looked_at }),
    );
    said.note(
        "no file",
        ClientConfig::from_kubeconfig("/a/b").await.map(drop),
    );
    let file = std::env::temp_dir().join(format!("steersman-guide-{}", std::process::id()));
    for text in [
        "a: [",
        "",
        "{apiVersion: v1, kind: Config, current-context: nope, clusters: [], contexts: [], users: []}",
    ] {
        std::fs::write(&file, text).unwrap();
        said.note(text, ClientConfig::from_kubeconfig(&file).await.map(drop));
    }
    std::fs::remove_file(&file).unwrap();
    // No program listens on port 1.
    let nowhere = crate::kube_client::Config::new("http://127.0.0.1:1".parse().unwrap());
    let manager = Manager::builder(ClientConfig::from_config(nowhere))
        .build()
        .unwrap();
    let read = manager.client().live().get::<Pod>(&key("a")).await;
    said.note("unreachable", read);
    let elsewhere = crate::kube_client::Config::new(web_server().parse().unwrap());
    let manager = Manager::builder(ClientConfig::from_config(elsewhere))
        .build()
        .unwrap();
    let read = manager.client().live().get::<Pod>(&key("a")).await;
    said.note("something else", read);
}

/// Starts a web server that answers one request with 404, and returns its address.
fn web_server() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let _ = client.read(&mut [0; 4096]).unwrap();
        let page = "HTTP/1.1 404 Not Found\r\ncontent-length: 6\r\nconnection: close\r\n\r\n<html>";
        client.write_all(page.as_bytes()).unwrap();
    });
    format!("http://{address}")
}

async fn declaring(said: &mut Said, server: &ApiServer) {
    let wrong = CacheOptions::new().by_object::<Pod>(ByObject::new().labels("a in b"));
    let built = Manager::builder(client_config(server)).cache(wrong).build();
    said.note("selector", built.map(drop));
    let manager = manager(server, CacheOptions::new());
    let greetings = || Controller::builder::<Greeting>().build(Nothing).unwrap();
    manager.add_controller(greetings()).unwrap();
    said.note("name", manager.add_controller(greetings()));
    let idle = Controller::builder::<Deployment>().max_concurrent_reconciles(0);
    said.note("workers", idle.build(Nothing).map(drop));
    let name = |pod: &Pod| pod.metadata.name.clone();
    manager.cache().index_field::<Pod>("n", name).unwrap();
    said.note("index", manager.cache().index_field::<Pod>("n", name));
    said.note("early", manager.client().get::<Pod>(&key("a")).await);
    manager.start(Shutdown::when(async {})).await.unwrap();
    said.note("again", manager.start(Shutdown::never()).await);
}

async fn starting(said: &mut Said, server: &ApiServer) {
    let start = async |options: CacheOptions, limit: u64| {
        let manager = manager(server, options);
        let greetings = Controller::builder::<Greeting>()
            .require_sync(Duration::from_secs(limit))
            .build(Nothing)
            .unwrap();
        manager.add_controller(greetings).unwrap();
        manager.start(Shutdown::never()).await
    };
    said.note("not installed", start(CacheOptions::new(), 20).await);
    let forbidden = r#"User "a" cannot list resource "greetings" in API group "hello.example.com""#;
    for answer in [
        Answer::code(403).message(forbidden),
        Answer::code(401),
        Answer::code(400).message("field label not supported: spec.colour"),
        Answer::code(500),
        Answer::code(503),
    ] {
        let _fault = server
            .faults()
            .answer(None, "greetings.hello.example.com", answer);
        said.note("refused", start(CacheOptions::new(), 20).await);
    }
    let impatient = CacheOptions::new().sync_timeout(Duration::from_secs(1));
    let slow = server
        .faults()
        .delay(None, "greetings", Duration::from_secs(500));
    said.note("slow", start(impatient, 20).await);
    said.note("silent", start(CacheOptions::new(), 120).await);
    drop(slow);
}

/// Starts a client with a cache that runs until the sender is dropped.
async fn running(server: &ApiServer, options: CacheOptions) -> Client {
    let manager = manager(server, options);
    manager.cache().informer::<Greeting>().unwrap();
    let client = manager.client().clone();
    let cache = manager.cache().clone();
    tokio::spawn(async move { manager.start(Shutdown::never()).await });
    cache.wait_for_sync().await.unwrap();
    client
}

fn greeting(server: &ApiServer, name: &str, text: &Value) {
    let object = json!({
        "apiVersion": "hello.example.com/v1", "kind": "Greeting",
        "metadata": {"name": name}, "spec": {"text": text},
    });
    server.create(object).unwrap();
}

async fn reading(said: &mut Said, server: &ApiServer) {
    let options = CacheOptions::new()
        .by_object::<Service>(ByObject::new().namespaces(["a"]))
        .by_object::<Deployment>(ByObject::new().labels("app=x"));
    let client = running(server, options).await;
    said.note("absent", client.get::<Greeting>(&key("s")).await);
    said.note("hidden", client.get::<Deployment>(&key("s")).await);
    said.note("outside", client.get::<Service>(&key("s")).await);
    said.note("undeclared", client.get::<Secret>(&key("s")).await);
    let by_x = ListOptions::new().index("x", "y");
    said.note("no index", client.list::<Greeting>(&by_x).await);
    let hidden: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "hid", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    client.create(&hidden).await.unwrap();
    said.note("hidden create", client.create(&hidden).await);

    let mut loose = serde_json::to_value(Greeting::crd()).unwrap();
    loose["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    server.install_crd(loose).unwrap();
    greeting(server, "odd", &json!(7));
    // The changed definition ended the watch, which begins again after a pause.
    while matches!(client.get_opt::<Greeting>(&key("odd")).await, Ok(None)) {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    said.note("malformed", client.get::<Greeting>(&key("odd")).await);
}

async fn writing(said: &mut Said, server: &ApiServer) {
    let client = running(server, CacheOptions::new()).await;
    for name in ["a", "bad"] {
        greeting(server, name, &json!("hi"));
    }
    let mut changed: Greeting = client.live().get(&key("a")).await.unwrap();
    changed.spec.text = "other".to_owned();
    changed.metadata.resource_version = Some("1".to_owned());
    said.note("conflict", client.update(&changed).await);
    changed.metadata.resource_version = None;
    said.note("no version", client.update(&changed).await);
    let strategic = Patch::Strategic(json!({}));
    said.note("415", client.patch::<Greeting>(&key("a"), &strategic).await);
    let before: Greeting = client.live().get(&key("a")).await.unwrap();
    let busy = server
        .faults()
        .answer(Verb::Patch, "greetings", Answer::code(409));
    let change = |greeting: &mut Greeting| greeting.spec.text = "new".to_owned();
    said.note("busy", client.modify(&before, change).await.map(drop));
    drop(busy);

    let mut homeless = ConfigMap::default();
    homeless.metadata.name = Some("q".to_owned());
    said.note("no namespace", client.create(&homeless).await);

    let mut nameless = ConfigMap::default();
    nameless.metadata.generate_name = Some("shop-".to_owned());
    nameless.metadata.namespace = Some("default".to_owned());
    let refused = server
        .faults()
        .answer(Verb::Create, "configmaps", Answer::code(403));
    said.note("no name yet", client.create(&nameless).await);
    drop(refused);
    let mut stateless = nameless;
    stateless.metadata.name = Some("a".to_owned());
    let status = client.status().modify(&stateless, |_| {}).await;
    said.note("no status", status.map(drop));

    let mut owned = ConfigMap::default();
    owned.metadata.name = Some("owned".to_owned());
    owned.metadata.namespace = Some("default".to_owned());
    let mut unborn = Greeting::new("u", before.spec.clone());
    unborn.metadata.namespace = Some("default".to_owned());
    said.note(
        "unborn",
        owner::set_controller_reference(&unborn, &mut owned),
    );
    owner::set_controller_reference(&before, &mut owned).unwrap();
    let bad: Greeting = client.live().get(&key("bad")).await.unwrap();
    said.note("second", owner::set_controller_reference(&bad, &mut owned));
    owned.metadata.namespace = Some("other".to_owned());
    said.note("elsewhere", owner::add_owner_reference(&bad, &mut owned));
    owned.metadata.namespace = None;
    said.note("cluster", owner::add_owner_reference(&bad, &mut owned));
}

async fn stopping(said: &mut Said, server: &ApiServer) {
    let builder = Manager::builder(client_config(server));
    let grace = Duration::from_secs(3);
    let manager = builder.graceful_shutdown_timeout(grace).build().unwrap();
    let slow = Controller::builder::<Greeting>().name("slow");
    manager
        .add_controller(slow.build(Stubborn).unwrap())
        .unwrap();
    let soon = Shutdown::when(tokio::time::sleep(Duration::from_secs(9)));
    said.note("slow", manager.start(soon).await);
    let insisted = crate::manager::Error::Aborted {
        running: vec!["controller \"slow\"".to_owned()],
    };
    said.note("insisted", Err::<(), _>(insisted));

    let manager = self::manager(server, CacheOptions::new());
    let poller = |_| async { panic!("nothing to poll") };
    let poller = runnable::from_fn("poller", Group::Others, poller);
    manager.add(poller).unwrap();
    said.note("runnable", manager.start(Shutdown::never()).await);
}
