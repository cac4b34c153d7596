//! Handle: declares an operator and its surroundings for a test.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube_core::CustomResourceExt;
use serde_json::Value;
use steersman_api::ClientConfig;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::Client;
use steersman_controller::{Controller, Reconciler};
use steersman_manager::Manager;
use steersman_object::TypedObject;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::{TestEnv, TestEnvBuilder};
use steersman_webhook::WebhookServer;

use crate::called_webhooks;
use crate::error::{BoxError, HarnessError};
use crate::explore::{ExploreReport, ExploredOperator, Scenario, explore};
use crate::external::{External, MakeOperator};
use crate::prepared::Prepared;
use crate::request_log::AGENT;
use crate::running_operator::{OperatorPlan, RunningOperator, Surroundings};

type PrepareFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;
type Prepare = Box<dyn FnOnce(Prepared) -> PrepareFuture + Send>;

/// An operator and its surroundings, before the start of a test.
#[derive(derive_more::Debug)]
#[debug(
    "OperatorTest {{ env: {env:?}, quiet: {:?}, patience: {:?}, .. }}",
    plan.quiet, plan.patience
)]
#[must_use = "an operator runs after `start`"]
pub struct OperatorTest {
    make: MakeOperator,
    plan: OperatorPlan,
    env: TestEnvBuilder,
    is_in_process: bool,
    is_in_own_namespace: bool,
    before_start: Vec<Prepare>,
    webhooks: Option<WebhookServer>,
}

impl OperatorTest {
    /// Declares an operator with a single controller, which reconciles objects of type `K`.
    ///
    /// The controller has no further watches; [`declared`](Self::declared) takes an operator with watches and indexes.
    pub fn new<K: TypedObject>(reconciler: impl Reconciler) -> Self {
        let reconciler = Arc::new(reconciler);
        Self::declared(move |manager: &Manager| -> Result<(), BoxError> {
            let controller = Controller::builder::<K>().build(Arc::clone(&reconciler))?;
            Ok(manager.add_controller(controller)?)
        })
    }

    /// Declares an operator like its `main`: the closure adds indexes, controllers and runnables to the manager.
    ///
    /// The closure runs at each start of the operator, and so also in
    /// [`assert_settled`](RunningOperator::assert_settled).
    pub fn declared<E: Into<BoxError>>(
        declare: impl Fn(&Manager) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self::declared_with(External::new(|| ()), move |manager, ()| declare(manager))
    }

    /// Declares an operator that keeps an external system. The closure gets the stand-in of the test, or of one world of
    /// [`explore`](Self::explore).
    pub fn declared_with<S: Send + Sync + 'static, E: Into<BoxError>>(
        external: External<S>,
        declare: impl Fn(&Manager, &S) -> Result<(), E> + Send + Sync + 'static,
    ) -> Self {
        Self {
            make: external.operators(declare),
            plan: OperatorPlan {
                cache: CacheOptions::new(),
                quiet: Duration::from_secs(1),
                patience: Duration::from_secs(60),
                other_servers: Vec::new(),
                rbac_file: None,
            },
            env: TestEnv::builder(),
            is_in_process: true,
            is_in_own_namespace: false,
            before_start: Vec::new(),
            webhooks: None,
        }
    }

    /// Installs definitions like [`TestEnvBuilder::crd`].
    pub fn crds(mut self, definitions: impl IntoIterator<Item = Value>) -> Self {
        self.env = definitions.into_iter().fold(self.env, TestEnvBuilder::crd);
        self
    }

    /// Installs the definitions in a file or folder like [`TestEnvBuilder::crds_from`].
    pub fn crds_from(mut self, path: impl Into<PathBuf>) -> Self {
        self.env = self.env.crds_from(path);
        self
    }

    /// Installs the definition of a custom resource type.
    pub fn crd_of<K: CustomResourceExt>(mut self) -> Self {
        self.env = self.env.crd_of::<K>();
        self
    }

    /// Sets the embedded server, for a test that runs on one. The default is a new server with RBAC that simulates no
    /// controllers of workloads.
    pub fn server(mut self, server: ApiServer) -> Self {
        self.env = self.env.server(server);
        self
    }

    /// Lets environment variables choose the server, like [`TestEnv::start`]: the embedded server over HTTPS, real
    /// binaries, or an existing cluster. The clock must not be paused then. By default, the embedded server runs in
    /// this process.
    pub fn over_network(mut self) -> Self {
        self.is_in_process = false;
        self
    }

    /// Sets the options of the operator's cache. By default it watches all namespaces.
    pub fn cache(mut self, options: CacheOptions) -> Self {
        self.plan.cache = options;
        self
    }

    /// Limits the operator's cache to the namespace of the test, so that the operator ignores other objects of an
    /// existing cluster.
    pub fn in_own_namespace(mut self) -> Self {
        self.is_in_own_namespace = true;
        self
    }

    /// Adds another embedded server, for an operator of several clusters:
    /// [`assert_settled`](RunningOperator::assert_settled) counts its writes as well.
    pub fn other_server(mut self, server: &ApiServer) -> Self {
        self.plan.other_servers.push(server.clone());
        self
    }

    /// Adds the permissions that the operator needed to a file when the test [stops](RunningOperator::stop) it.
    ///
    /// The file has the permissions of all tests that name it, and is committed; use
    /// `concat!(env!("CARGO_MANIFEST_DIR"), "/rbac.observed.yaml")`. `cargo steersman generate` makes the operator's
    /// role from it. Permissions are only added: to start again, delete the file and run all tests. Comments in the
    /// file are lost. A test that fails before `stop` adds nothing, and neither does a test without the embedded
    /// server, which alone logs requests (HARNESS-4).
    ///
    /// The permissions are those of [`rbac_needed`](RunningOperator::rbac_needed). Several tests and test programs may
    /// add to a file at the same time.
    pub fn observe_rbac(mut self, path: impl Into<PathBuf>) -> Self {
        self.plan.rbac_file = Some(path.into());
        self
    }

    /// Makes the embedded server call the webhooks that `add` adds, in this process and without certificates; `add` is
    /// usually the function that [`Program::webhooks`](https://docs.rs/steersman-cli) takes. The server calls the
    /// defaulters and validators for creations and updates, and the conversions of installed definitions.
    pub fn webhooks(mut self, add: impl FnOnce(WebhookServer) -> WebhookServer) -> Self {
        self.webhooks = Some(add(WebhookServer::new("0")));
        self
    }

    /// Runs a closure before the operator starts, to create objects that it shall find. The definitions and the test's
    /// namespace exist by then. Several closures run in the order of their addition.
    pub fn before_start<F, Fut>(mut self, prepare: F) -> Self
    where
        F: FnOnce(Prepared) -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
    {
        let prepare: Prepare = Box::new(move |prepared| Box::pin(prepare(prepared)));
        self.before_start.push(prepare);
        self
    }

    /// Sets the time without a change after which the operator counts as steady, by the clock of the runtime. The
    /// default is 1 s, longer than the steps of a simulated Pod and shorter than most requeues.
    pub fn quiet_for(mut self, time: Duration) -> Self {
        self.plan.quiet = time;
        self
    }

    /// Sets the time limit for the operator to become steady, by the clock of the runtime; 60 s by default.
    pub fn steady_within(mut self, time: Duration) -> Self {
        self.plan.patience = time;
        self
    }

    /// Explores the operator: runs it in many worlds, each on an embedded server and a paused clock of its own, kills it
    /// at each of its writes, loses answers, shows it old states, and compares each world with an undisturbed one.
    /// Returns the report if nothing was found. The test needs no paused clock of its own.
    ///
    /// The operator is declared with its [cache](Self::cache), its definitions and its [`webhooks`](Self::webhooks), and
    /// starts anew in each world. The [scenario](Scenario) has the objects and makes the servers, so that
    /// [`server`](Self::server), [`before_start`](Self::before_start), [`in_own_namespace`](Self::in_own_namespace)
    /// and the time limits of other tests have no effect.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Explored`] with the story of each finding, which `unwrap` prints; [`HarnessError::Explore`] if a
    /// world cannot run, [`HarnessError::Env`] for definitions that cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: the worlds run to their end on other threads.
    pub async fn explore(self, scenario: Scenario) -> Result<ExploreReport, HarnessError> {
        let operator = ExploredOperator {
            make: self.make,
            cache: self.plan.cache,
            webhooks: self.webhooks,
            definitions: self.env.definitions()?,
        };
        let explored = tokio::task::spawn_blocking(move || explore(operator, scenario));
        explored
            .await
            .unwrap_or_else(|error| Err(HarnessError::Explore(error.into())))
    }

    /// Starts the server, installs the definitions, creates a namespace, runs the closures of
    /// [`before_start`](Self::before_start), and starts the operator.
    ///
    /// The operator uses the wall clock of the embedded server, which a paused clock advances.
    ///
    /// # Errors
    ///
    /// [`HarnessError::Env`], [`HarnessError::Request`], [`HarnessError::BeforeStart`],
    /// [`HarnessError::Declare`]; [`HarnessError::Webhooks`] for webhooks on a server other than the embedded one.
    ///
    /// # Cancel safety
    ///
    /// Not cancel safe: on an existing cluster, the namespace may remain.
    pub async fn start(mut self) -> Result<RunningOperator, HarnessError> {
        let env = match self.is_in_process {
            true => self.env.in_process(),
            false => self.env,
        };
        // The future is boxed, because that of a test should not include the futures of all backends.
        let env = Box::pin(env.start()).await?;
        if let Some(webhooks) = &self.webhooks {
            let needed = || HarnessError::Webhooks("they need the embedded server".into());
            called_webhooks::call(env.server().ok_or_else(needed)?, webhooks)?;
        }
        if let Some(server) = env.server() {
            called_webhooks::warn_of_unconverted(server);
        }
        let client_config = connect(&env);
        let client = client(&client_config)?;
        let namespace = Box::pin(create_namespace(&client)).await?;
        let prepared = Prepared { client, namespace };
        for prepare in self.before_start {
            let done = prepare(prepared.clone()).await;
            done.map_err(HarnessError::BeforeStart)?;
        }
        if self.is_in_own_namespace {
            self.plan.cache = self.plan.cache.default_namespaces([prepared.namespace()]);
        }
        RunningOperator::launch(Surroundings {
            declare: (self.make)().declare,
            env,
            client_config,
            prepared,
            plan: self.plan,
        })
    }
}

fn connect(env: &TestEnv) -> ClientConfig {
    if let Some(config) = env.config() {
        return ClientConfig::from_config(config.clone());
    }
    // A server of this process needs no client configuration.
    let server = env.server().cloned().unwrap_or_default();
    ClientConfig::in_process(server.service(), "default")
}

/// Returns the client of the test, with the harness's own `User-Agent`.
fn client(client_config: &ClientConfig) -> Result<Client, HarnessError> {
    let client_config = client_config.clone();
    let client_config = client_config.user_agent(AGENT, env!("CARGO_PKG_VERSION"));
    // The cache never runs, because the client reads live.
    let cache = Cache::new(CacheOptions::new());
    let failed = HarnessError::request("make a client");
    let cache = cache.map_err(|error| failed(error.into()))?;
    Ok(Client::new(cache, client_config))
}

async fn create_namespace(client: &Client) -> Result<String, HarnessError> {
    let mut namespace = Namespace::default();
    namespace.metadata.generate_name = Some("operator-test-".to_owned());
    let created = client.create(&namespace).await;
    let created = created.map_err(HarnessError::request("create a namespace"))?;
    Ok(created.metadata.name.unwrap_or_default())
}
