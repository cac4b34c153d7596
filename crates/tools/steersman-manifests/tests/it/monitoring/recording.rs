//! Runs an operator under its manifests, and records what Prometheus reads from it.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Secret, Service};
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use steersman_api::AnyCertificate;
use steersman_cache::ListOptions;
use steersman_cli::Program;
use steersman_client::Client;
use steersman_controller::handler::{mapped, mapped_async};
use steersman_controller::{
    Action, Context, Controller, Error, Reconciler, Request, Watch, predicate,
};
use steersman_crds::{Crd, Crds};
use steersman_manager::Shutdown;
use steersman_manifests::{Manifests, Options, RuleList};
use steersman_object::ObjectKey;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::apiserver::auth::{Authorization, User};
use steersman_testenv::apiserver::faults::{Answer, FaultSpec, RequestRecord, Verb};
use steersman_testenv::{TestEnv, eventually_within};
use steersman_webhook::{AdmissionContext, Defaulter, Refusal, Validator};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use super::exposition::Exposition;
use crate::install::{ACCOUNT, apply, documents, free_address};

/// Two scrapes of one replica.
pub(crate) struct Recording {
    pub(crate) before: Exposition,
    pub(crate) after: Exposition,
}

/// An operator with all permissions, with objects that it can reconcile.
pub(crate) static HEALTHY: LazyLock<Recording> = LazyLock::new(|| recorded(healthy));

/// An operator without the permission to read Secrets, with objects of which each causes another failure.
pub(crate) static TROUBLED: LazyLock<Recording> = LazyLock::new(|| recorded(troubled));

/// The only replica of an operator that shares its work.
pub(crate) static SHARDED: LazyLock<Recording> = LazyLock::new(|| recorded(sharded));

const PROMETHEUS: &str = "system:serviceaccount:monitoring:prometheus-k8s";

const PATIENCE: Duration = Duration::from_secs(60);

/// A reconciler that does what the name of its object says.
struct Named;

impl Reconciler for Named {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        match request.key.name() {
            "fails" => Err(Error::msg("it fails")),
            "fails-for-good" => Err(Error::msg("it fails for good").terminal()),
            "panics" => panic!("the reconcile of this object panics"),
            "works" => {
                let client = ctx.client();
                let Some(map) = client.get_opt::<ConfigMap>(&request.key).await? else {
                    return Ok(Action::done());
                };
                let services = client.list::<Service>(&ListOptions::new()).await?;
                let services = services.len().to_string();
                let note = |map: &mut ConfigMap| {
                    let data = map.data.get_or_insert_default();
                    data.insert("services".to_owned(), services.clone());
                };
                client.modify(&map, note).await?;
                // Waits until the cache shows the write.
                client.list::<ConfigMap>(&ListOptions::new()).await?;
                Ok(Action::done())
            }
            _ => Ok(Action::done()),
        }
    }
}

struct Idle;

impl Reconciler for Idle {
    async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
        Ok(Action::done())
    }
}

/// Webhooks that do what the labels of an object say.
struct Labelled;

impl Defaulter<ConfigMap> for Labelled {
    async fn default(&self, _: &mut ConfigMap, _: &AdmissionContext) -> Result<(), Refusal> {
        Ok(())
    }
}

impl Validator<ConfigMap> for Labelled {
    async fn validate_create(
        &self,
        object: &ConfigMap,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        let labels = object.metadata.labels.clone().unwrap_or_default();
        assert!(!labels.contains_key("panics"), "the webhook panics");
        match labels.contains_key("refused") {
            true => Err(Refusal::denied("it is refused")),
            false => Ok(()),
        }
    }

    async fn validate_update(
        &self,
        _: &ConfigMap,
        _: &ConfigMap,
        _: &AdmissionContext,
    ) -> Result<(), Refusal> {
        Ok(())
    }
}

pub(crate) fn program() -> Program {
    let definition = json!({
        "metadata": {"name": "sites.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Site", "plural": "sites"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    });
    let definition = serde_json::from_value(definition).unwrap();
    Program::new("sites", "1.2.3")
        .crds(Crds::new().with(Crd::new(&definition)))
        .webhooks(|server, _| {
            let server = server.defaulter::<ConfigMap>(Labelled);
            server.validator::<ConfigMap>(Labelled)
        })
        .setup(|manager, _| {
            let keys = |_: &Service| vec![ObjectKey::namespaced("default", "works")];
            let panics = predicate::object(|service: &Service| {
                let name = service.metadata.name.as_deref();
                assert_ne!(name, Some("lost"), "the predicate panics");
                true
            });
            let fails = |_: Client, endpoints: Arc<Endpoints>| async move {
                match endpoints.metadata.name.as_deref() {
                    Some("lost") => Err(Error::msg("the handler fails")),
                    _ => Ok(Vec::<ObjectKey>::new()),
                }
            };
            let controller = Controller::builder::<ConfigMap>()
                .owns::<ConfigMap>()
                .watch(Watch::of::<Service>(mapped(keys)).filter(panics))
                .watches::<Endpoints>(mapped_async(fails))
                .build(Named)?;
            manager.add_controller(controller)?;
            let controller = Controller::builder::<Secret>().build(Idle)?;
            Ok(manager.add_controller(controller)?)
        })
}

fn recorded<F: Future<Output = Recording>>(run: fn() -> F) -> Recording {
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(run())
}

async fn healthy() -> Recording {
    let running = Running::start("--leader-elect", |_, _| {}).await;
    let before = running
        .until("Secrets are reconciled", has_reconciled("secret"))
        .await;
    running.create_first().await;
    running.record(before, has_reconciled("configmap")).await
}

async fn sharded() -> Recording {
    let running = Running::start("--shards", |_, _| {}).await;
    let before = running.until("it has a part", |scrape| {
        sum(scrape, "steersman_shard_slots") > 255.0
    });
    let before = before.await;
    running.create_first().await;
    running.record(before, has_reconciled("configmap")).await
}

async fn troubled() -> Recording {
    let running = Running::start("--leader-elect", |server, objects| {
        for (verb, resource, answer) in [
            (Verb::Create, "customresourcedefinitions", Answer::code(500)),
            (Verb::Patch, "customresourcedefinitions", Answer::code(500)),
            (Verb::Patch, "configmaps", Answer::code(429).retry_after(1)),
        ] {
            let fault = FaultSpec::from(answer.times(1))
                .verb(verb)
                .resource(resource);
            server.faults().add(fault).unwrap().keep();
        }
        let roles = objects
            .iter_mut()
            .filter(|object| object["metadata"]["name"] == "sites");
        for rules in roles.filter_map(|role| role.get_mut("rules")?.as_array_mut()) {
            for rule in &mut *rules {
                if let Some(resources) = rule["resources"].as_array_mut() {
                    resources.retain(|resource| resource != "secrets");
                }
            }
            rules.retain(|rule| rule["resources"] != json!([]));
        }
    })
    .await;
    let waits = |scrape: &Exposition| scrape.labels("steersman_controller_waiting").is_some();
    let before = running.until("a controller waits", waits).await;
    running.create_first().await;
    running.write_unseen().await;
    for name in ["fails", "fails-for-good", "panics"] {
        running.create("ConfigMap", name, &json!({})).await.unwrap();
    }
    for label in ["refused", "panics"] {
        let refused = running
            .create("ConfigMap", label, &json!({label: "true"}))
            .await;
        assert!(refused.is_err(), "{refused:?}");
    }
    for kind in ["Service", "Endpoints"] {
        running.create(kind, "lost", &json!({})).await.unwrap();
    }
    let grown = [
        "controller_runtime_reconcile_panics_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "rest_client_request_retries_total",
        "steersman_controller_handler_errors_total",
        "steersman_controller_handler_panics_total",
        "steersman_definition_errors_total",
        "steersman_informer_last_bookmark_age_seconds",
        "steersman_own_write_wait_seconds_count",
    ];
    let fails = |scrape: &Exposition| {
        let errors = sum(scrape, "controller_runtime_reconcile_errors_total");
        errors > 0.6 * sum(scrape, "controller_runtime_reconcile_total")
    };
    let has_effects =
        |scrape: &Exposition| grown.iter().all(|metric| sum(scrape, metric) > 0.0) && fails(scrape);
    running.record(before, has_effects).await
}

/// Returns the sum of all series of a metric.
fn sum(scrape: &Exposition, metric: &str) -> f64 {
    let series = scrape.series.iter();
    let series = series.filter(|(series, _)| series.metric == metric);
    series.map(|(_, value)| value).sum()
}

fn has_reconciled(controller: &'static str) -> impl Fn(&Exposition) -> bool {
    move |scrape| {
        let is_success = |series: &super::exposition::Series| {
            series.metric == "controller_runtime_reconcile_total"
                && series.labels["controller"] == controller
                && series.labels["result"] == "success"
        };
        let mut series = scrape.series.iter();
        series.any(|(series, value)| is_success(series) && *value > 0.0)
    }
}

/// An operator that runs with the flags and the permissions of its manifests, and its Prometheus.
struct Running {
    env: TestEnv,
    metrics: SocketAddr,
    token: String,
    stop: oneshot::Sender<()>,
    running: tokio::task::JoinHandle<Result<(), steersman_cli::Error>>,
    _home: TempDir,
}

impl Running {
    /// Starts the operator with this flag in place of `--leader-elect`. `change` changes the server and the
    /// objects of the installer.
    async fn start(replicas: &str, change: impl FnOnce(&ApiServer, &mut [Value])) -> Self {
        let server = ApiServer::builder()
            .authorization(Authorization::Rbac)
            .bookmark_every(Duration::from_millis(200))
            .build();
        let env = TestEnv::https(server.clone()).await.unwrap();
        let options = Options {
            prometheus_account: Some("monitoring/prometheus-k8s".to_owned()),
            ..Options::default()
        };
        // The reconciler modifies the objects of its own kind, which no declaration implies.
        let rules =
            "rules:\n- apiGroups: [\"\"]\n  resources: [configmaps]\n  verbs: [patch, update]\n";
        let rules = RuleList::parse("rbac.extra.yaml", rules).unwrap();
        let manifests = Manifests::new(&program().describe().unwrap(), &rules, &options).unwrap();
        let mut objects = documents(&manifests.install());
        objects.retain(|object| object["kind"] != "CustomResourceDefinition");
        change(&server, &mut objects);
        let binding = &manifests.kustomize()["config/prometheus/metrics_reader_binding.yaml"];
        objects.push(serde_saphyr::from_str(binding).unwrap());
        apply(&server, &objects);
        let home = TempDir::new().unwrap();
        let kubeconfig = kubeconfig(&env, &server, home.path());
        let certificates = home.path().join("metrics");
        std::fs::create_dir(&certificates).unwrap();
        certificate(&certificates);
        let (metrics, webhooks) = (free_address(), free_address());
        server.route_service("sites-system", "sites", 443, &format!("https://{webhooks}"));
        let flags = [
            "--install".to_owned(),
            "--health-probe-bind-address=0".to_owned(),
            replicas.to_owned(),
            "--leader-election-namespace=sites-system".to_owned(),
            "--max-total-reconciles=4".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--metrics-bind-address={metrics}"),
            format!("--metrics-cert-path={}", certificates.display()),
            format!("--webhook-bind-address={webhooks}"),
        ];
        let words: Vec<String> = std::iter::once("sites".to_owned()).chain(flags).collect();
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = Shutdown::when(async move {
            // A dropped sender also stops the program.
            let _ = stopped.await;
        });
        Self {
            token: server.add_user(User::new(PROMETHEUS)),
            running: tokio::spawn(program().run_with(words, shutdown)),
            env,
            metrics,
            stop,
            _home: home,
        }
    }

    /// Scrapes until a condition holds.
    async fn until(&self, what: &str, holds: impl Fn(&Exposition) -> bool) -> Exposition {
        let scraped = std::cell::RefCell::new(Exposition::default());
        let check = async || {
            let text = self.scrape().await?;
            let scrape = Exposition::parse(&text);
            let outcome = if holds(&scrape) { Ok(()) } else { Err(text) };
            scraped.replace(scrape);
            outcome
        };
        eventually_within(PATIENCE, what, check).await.unwrap();
        scraped.into_inner()
    }

    /// Scrapes again when a condition holds and no worker is busy, and stops the operator.
    async fn record(self, before: Exposition, holds: impl Fn(&Exposition) -> bool) -> Recording {
        let rests = |scrape: &Exposition| sum(scrape, "controller_runtime_active_workers") == 0.0;
        let after = self.until("the run has its effects", |scrape| {
            holds(scrape) && rests(scrape)
        });
        let after = after.await;
        drop(self.stop);
        self.running.await.unwrap().unwrap();
        Recording { before, after }
    }

    /// Reads the metrics as Prometheus does, with the token of its service account.
    async fn scrape(&self) -> Result<String, String> {
        let stream = TcpStream::connect(self.metrics).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let config = AnyCertificate::client_config().unwrap();
        let connector = TlsConnector::from(Arc::new(config.with_no_client_auth()));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector
            .connect(name, stream)
            .await
            .map_err(|error| error.to_string())?;
        let head = format!(
            "GET /metrics HTTP/1.0\r\nHost: test\r\nAuthorization: Bearer {}\r\n\r\n",
            self.token
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        // A reset of the connection also ends the response.
        let _ = stream.read_to_end(&mut bytes).await;
        let text = String::from_utf8(bytes).unwrap();
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.contains(" 200 ") => Ok(body.to_owned()),
            _ => Err(text),
        }
    }

    /// Creates the object that can be reconciled, as soon as the webhooks answer, and waits until it is reconciled.
    async fn create_first(&self) {
        let check = async || {
            let created = self.create("ConfigMap", "works", &json!({})).await;
            created.map(|_| ())
        };
        let created = eventually_within(PATIENCE, "the webhooks answer", check).await;
        created.unwrap();
        self.until_written(1).await;
    }

    /// Makes the operator write an object while the watch of its kind is silent, and wait until it sees the write.
    async fn write_unseen(&self) {
        let server = self.env.server().unwrap();
        server.faults().silence_watches_of("configmaps");
        let created = self.create("Service", "another", &json!({})).await;
        created.unwrap();
        self.until_written(2).await;
        // The write took milliseconds: a reconcile that runs for longer waits to see it.
        let waits =
            |scrape: &Exposition| sum(scrape, "workqueue_longest_running_processor_seconds") > 0.5;
        self.until("the reconcile waits", waits).await;
        server.faults().resume_watches();
    }

    /// Waits until the operator has patched ConfigMaps this number of times.
    async fn until_written(&self, times: usize) {
        let is_patch = |request: &RequestRecord| {
            request.user == ACCOUNT
                && request.verb == Some(Verb::Patch)
                && request.resource == "configmaps"
                && request.status == Some(200)
        };
        let check = async || {
            let written = self.env.server().unwrap().requests().matching(is_patch);
            match written.len() >= times {
                true => Ok(()),
                false => Err(format!("{written:?}")),
            }
        };
        let written = eventually_within(PATIENCE, "the operator writes", check).await;
        written.unwrap();
    }

    /// Creates an object over HTTP, so that webhooks are called.
    async fn create(&self, kind: &str, name: &str, labels: &Value) -> Result<Value, String> {
        let object = json!({
            "apiVersion": "v1", "kind": kind, "metadata": {"name": name, "labels": labels},
            "spec": {"ports": [{"port": 80}]},
        });
        let mut object = object;
        if kind != "Service" {
            object.as_object_mut().unwrap().remove("spec");
        }
        let plural = match kind {
            "ConfigMap" => "configmaps",
            "Service" => "services",
            _ => "endpoints",
        };
        let path = format!("/api/v1/namespaces/default/{plural}");
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(object.to_string().into_bytes()).unwrap();
        let created: Result<Value, _> = self.env.client().unwrap().request(request).await;
        created.map_err(|error| error.to_string())
    }
}

/// Writes a kubeconfig with the token of the operator's service account, and with a client certificate.
fn kubeconfig(env: &TestEnv, server: &ApiServer, home: &Path) -> std::path::PathBuf {
    let mut config: Value = serde_saphyr::from_str(&env.kubeconfig().unwrap()).unwrap();
    certificate(home);
    config["users"][0]["user"] = json!({
        "token": server.add_user(User::new(ACCOUNT)),
        "client-certificate": home.join("tls.crt"),
        "client-key": home.join("tls.key"),
    });
    config["contexts"][0]["context"]["namespace"] = json!("sites-system");
    let file = home.join("kubeconfig");
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

/// Writes a certificate that is valid for decades, with its key.
fn certificate(folder: &Path) {
    let pair = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&pair).unwrap();
    std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), pair.serialize_pem()).unwrap();
}
