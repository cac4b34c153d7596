//! A manager with one controller on the embedded API server, with an export of traces.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use steersman_api::ClientConfig;
use steersman_api::kube_client::client::Body;
use steersman_apiserver::ApiServer;
use steersman_client::Client;
use steersman_controller::{Action, Context, Controller, Error, Reconciler};
use steersman_manager::{Manager, Shutdown};
use steersman_object::ObjectKey;
use steersman_otlp::{OtlpOptions, Traces};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tower::ServiceExt as _;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::layer::SubscriberExt as _;

/// A request as the server received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) traceparent: Option<String>,
}

/// The requests that the server received, in their order.
pub(crate) type ReceivedRequests = Arc<Mutex<Vec<ReceivedRequest>>>;

/// A running manager. Its subscriber is that of this thread until the value is dropped.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) requests: ReceivedRequests,
    traces: Traces,
    ended: mpsc::UnboundedReceiver<()>,
    stop: oneshot::Sender<()>,
    manager: JoinHandle<()>,
    _subscriber: DefaultGuard,
}

/// The first object. Its reconcile shows that the controller runs.
const FIRST: &str = "first-of-all";

/// Reports the end of each reconcile.
struct Reported<R> {
    inner: R,
    ended: mpsc::UnboundedSender<()>,
}

impl<R: Reconciler> Reconciler for Reported<R> {
    async fn reconcile(
        &self,
        context: &Context,
        request: steersman_controller::Request,
    ) -> Result<Action, Error> {
        let ended = match request.key.name() {
            FIRST => Ok(Action::done()),
            _ => self.inner.reconcile(context, request).await,
        };
        let _ = self.ended.send(());
        ended
    }
}

/// The longest time that a test waits for anything. It only turns an endless test into a failed one.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Returns the options of an export that no variable of this process changes.
pub(crate) fn start(options: &OtlpOptions) -> Traces {
    options.start_with(|_| None).unwrap().unwrap()
}

impl World {
    /// Starts a manager with the controller `greeter`, which reconciles ConfigMaps with `reconciler`.
    pub(crate) async fn start(
        server: &ApiServer,
        traces: &Traces,
        reconciler: impl Reconciler,
    ) -> Self {
        let requests = ReceivedRequests::default();
        let received = Arc::clone(&requests);
        let service = server.service().map_request(move |request: Request<Body>| {
            let header = request.headers().get("traceparent");
            received.lock().push(ReceivedRequest {
                path: request.uri().path().to_owned(),
                traceparent: header.map(|value| value.to_str().unwrap().to_owned()),
            });
            request
        });
        let client_config = traces.traced(ClientConfig::in_process(service, "default"));
        let manager = Manager::builder(client_config).build().unwrap();
        let (tell, mut ended) = mpsc::unbounded_channel();
        let reported = Reported {
            inner: reconciler,
            ended: tell,
        };
        let controller = Controller::builder::<ConfigMap>().name("greeter");
        let controller = controller.build(reported).unwrap();
        manager.add_controller(controller).unwrap();
        let client = manager.client().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let running = manager.start(Shutdown::when(async move {
            let _ = stopped.await;
        }));
        let manager = tokio::spawn(async move { running.await.unwrap() });
        create(&client, FIRST).await;
        timeout(LIMIT, ended.recv()).await.unwrap().unwrap();
        // The controller runs now, so that later objects are live events, and nothing before is exported.
        requests.lock().clear();
        let subscriber = tracing_subscriber::registry().with(traces.layer());
        Self {
            client,
            requests,
            traces: traces.clone(),
            ended,
            stop,
            manager,
            _subscriber: tracing::subscriber::set_default(subscriber),
        }
    }

    /// Creates a ConfigMap and waits until `reconciles` more reconciles have ended.
    pub(crate) async fn create(&mut self, name: &str, reconciles: usize) {
        create(&self.client, name).await;
        self.reconciled(reconciles).await;
    }

    pub(crate) async fn reconciled(&mut self, reconciles: usize) {
        for _ in 0..reconciles {
            timeout(LIMIT, self.ended.recv()).await.unwrap().unwrap();
        }
    }

    /// Stops the manager, and exports the last traces.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        timeout(LIMIT, self.manager).await.unwrap().unwrap();
        let shutdown = self.traces.shutdown(Duration::from_secs(5));
        timeout(LIMIT, shutdown).await.unwrap();
    }
}

async fn create(client: &Client, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.namespace = Some("default".to_owned());
    map.metadata.name = Some(name.to_owned());
    client.create(&map).await.unwrap();
}

pub(crate) fn key(name: &str) -> ObjectKey {
    ObjectKey::namespaced("default", name)
}
