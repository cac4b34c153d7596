//! A server, a cache and a client in one process, and a record of the reconciles.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use steersman_api::{ClientConfig, Encoding};
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::Client;
use steersman_controller::{Action, Error};
use steersman_controller::{
    Clock, Context, Controller, ControllerDefaults, ControllerError, Reconciler, Request,
    StartContext, reconcile,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The surroundings of a controller. The cache runs from the first `start` on.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) cache: Cache,
    pub(crate) client: Client,
    pub(crate) registry: Registry,
    pub(crate) cancel: CancellationToken,
    pub(crate) grace: Duration,
    /// The clock of controllers that are started from now on; by default the clock of the runtime.
    pub(crate) clock: Option<Clock>,
    /// The defaults of controllers that are started from now on.
    pub(crate) defaults: ControllerDefaults,
    client_config: ClientConfig,
    cache_runs: bool,
}

/// The requests that a recording reconciler got, in order.
pub(crate) struct Runs {
    seen: mpsc::UnboundedReceiver<(String, Instant)>,
    start: Instant,
}

/// Sends the reconciled requests to [`Runs`].
#[derive(Clone)]
pub(crate) struct Record(mpsc::UnboundedSender<(String, Instant)>);

impl World {
    pub(crate) fn new() -> Self {
        Self::with_cache(CacheOptions::new())
    }

    pub(crate) fn with_cache(options: CacheOptions) -> Self {
        Self::of(options, |client_config| client_config)
    }

    /// Makes a world of an encoding.
    pub(crate) fn encoded(encoding: Encoding) -> Self {
        Self::of(CacheOptions::new(), |client_config| {
            client_config.encoding(encoding)
        })
    }

    fn of(options: CacheOptions, change: impl FnOnce(ClientConfig) -> ClientConfig) -> Self {
        // The garbage collector would delete children, because these tests make up the uids of their owners.
        let server = ApiServer::builder().play_controllers(false).build();
        let client_config = change(ClientConfig::in_process(server.service(), "default"));
        let cache = Cache::new(options).unwrap();
        Self {
            client: Client::new(cache.clone(), client_config.clone()),
            server,
            cache,
            registry: Registry::new(),
            cancel: CancellationToken::new(),
            grace: Duration::from_secs(30),
            clock: None,
            defaults: ControllerDefaults::new(),
            client_config,
            cache_runs: false,
        }
    }

    pub(crate) fn start(
        &mut self,
        controller: Controller,
    ) -> JoinHandle<Result<(), ControllerError>> {
        controller.declare(&self.cache).unwrap();
        if !self.cache_runs {
            self.cache_runs = true;
            // The task outlives the controllers and ends with the runtime of the test.
            tokio::spawn(
                self.cache
                    .run(self.client_config.clone(), CancellationToken::new()),
            );
        }
        let start = StartContext::new(
            self.cache.clone(),
            self.client.clone(),
            self.cancel.clone(),
            self.clock.clone().unwrap_or_else(clock),
        );
        let start = start.grace(self.grace).registry(self.registry.clone());
        tokio::spawn(controller.start(start.defaults(self.defaults.clone())))
    }

    /// Returns the value of a metric of the controller `name`.
    pub(crate) fn metric(&self, metric: &str, labels: &str) -> String {
        self.series(&format!("controller_runtime_{metric}{{{labels}}} "))
    }

    /// Returns the value of the series with a line that begins with `series`.
    pub(crate) fn series(&self, series: &str) -> String {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.map_or_else(|| format!("no {series} in {text}"), str::to_owned)
    }

    pub(crate) fn deploy(&self, name: &str) -> Value {
        self.server.create(deployment(name)).unwrap()
    }

    /// Changes the spec, which counts up the generation.
    pub(crate) fn scale(&self, name: &str, replicas: i32) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.server
            .merge_patch("deployments.apps", "default", name, &patch)
            .unwrap();
    }

    pub(crate) fn annotate(&self, resource: &str, name: &str, value: &str) {
        let patch = json!({"metadata": {"annotations": {"example.com/note": value}}});
        self.server
            .merge_patch(resource, "default", name, &patch)
            .unwrap();
    }

    /// Creates a ConfigMap that the Deployments of these names own, the first as its controller.
    pub(crate) fn own(&self, name: &str, owners: &[&str]) -> Value {
        let references: Vec<Value> = owners
            .iter()
            .enumerate()
            .map(|(place, owner)| owner_reference(owner, place == 0))
            .collect();
        self.server
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default", "ownerReferences": references},
            }))
            .unwrap()
    }
}

pub(crate) fn owner_reference(name: &str, controller: bool) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": name,
        "uid": format!("uid-of-{name}"), "controller": controller,
    })
}

pub(crate) fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "web", "image": "web:1"}]},
            },
        },
    })
}

fn clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || Timestamp::UNIX_EPOCH + start.elapsed())
}

pub(crate) fn record() -> (Record, Runs) {
    let (sender, seen) = mpsc::unbounded_channel();
    let start = Instant::now();
    (Record(sender), Runs { seen, start })
}

impl Record {
    pub(crate) fn note(&self, text: &impl ToString) {
        // A test may have dropped the receiver, so the error is ignored.
        let _ = self.0.send((text.to_string(), Instant::now()));
    }

    /// Makes a reconciler that records each request and does nothing else.
    pub(crate) fn reconciler(self) -> impl Reconciler {
        reconcile::from_fn(move |_: Context, request: Request| {
            self.note(&request);
            std::future::ready(Ok::<_, Error>(Action::done()))
        })
    }
}

impl Runs {
    /// Returns the next request, without the namespace.
    pub(crate) async fn next(&mut self) -> String {
        self.next_at().await.0
    }

    /// Returns the next request, with the virtual milliseconds since the record began.
    pub(crate) async fn next_at(&mut self) -> (String, u128) {
        // A virtual day is enough; without a limit a failure would be a hang.
        let next = tokio::time::timeout(24 * HOUR, self.seen.recv()).await;
        let (text, at) = next.unwrap().unwrap();
        let text = text.strip_prefix("default/").unwrap_or(&text).to_owned();
        (text, (at - self.start).as_millis())
    }

    /// Returns whether no request is recorded for a virtual hour.
    pub(crate) async fn is_quiet(&mut self) -> bool {
        tokio::time::timeout(HOUR, self.next()).await.is_err()
    }

    /// Returns the requests recorded until none has come for a virtual hour.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut rest = Vec::new();
        while let Ok(text) = tokio::time::timeout(HOUR, self.next()).await {
            rest.push(text);
        }
        rest
    }
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

impl Runs {
    /// Returns whether every sender is gone and no request is left to read.
    pub(crate) fn seen_nothing_more(&mut self) -> bool {
        self.seen.try_recv().is_err()
    }
}
