//! Handle: everything an operator consists of, declared first, then started and stopped.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use steersman_api::Connection;
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_controller::{Controller, StartContext};
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::error::Error;
use crate::health::Health;
use crate::monitor::Monitor;
use crate::options::ManagerOptions;
use crate::order::Group;
use crate::runnable::{Erased, Runnable, from_fn};
use crate::shutdown::Shutdown;
use crate::supervision::Supervision;
use crate::supervisor::{Supervised, supervise};
use crate::tasks::RunnableTasks;

/// Owns a cache, a client and controllers. Cheap to clone.
///
/// Made by [`Manager::builder`]. Everything but [`start`](Self::start) declares, and needs no cluster.
///
/// # Examples
///
/// ```no_run
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use steersman_controller::Controller;
/// # use steersman_manager::{Error, Manager, shutdown_signal};
/// # async fn f(connection: steersman_api::Connection, scaler: impl steersman_controller::Reconciler) -> Result<(), Error> {
/// let manager = Manager::builder(connection).build()?;
/// manager.add_controller(Controller::builder::<Deployment>().build(scaler)?)?;
/// manager.start(shutdown_signal()).await
/// # }
/// ```
#[derive(Clone)]
#[must_use]
pub struct Manager {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    options: ManagerOptions,
    monitor: Arc<Monitor>,
    state: Mutex<State>,
    /// Wakes the one that runs when something was added.
    added: Notify,
}

/// What a controller is given where the manager waits without a limit.
const A_LONG_TIME: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug)]
struct State {
    phase: Phase,
    waiting: Vec<Erased>,
    controllers: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Declaring,
    Running,
    Stopping,
}

/// A manager that was told to start. However its run ends, nothing is started or waited for any more.
struct StartedManager {
    manager: Manager,
}

impl Drop for StartedManager {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.manager.shared.state.lock();
            state.phase = Phase::Stopping;
            take(&mut state.waiting)
        };
        // Outside the lock: what is dropped may have a drop of its own.
        drop(waiting);
    }
}

impl Manager {
    pub(crate) fn new(cluster: Cluster, options: ManagerOptions) -> Self {
        let state = State {
            phase: Phase::Declaring,
            waiting: vec![Erased::new(cluster.clone())],
            controllers: BTreeSet::new(),
        };
        let monitor = Monitor::new(&cluster.connection().endpoint(), cluster.cache().clone());
        let shared = Shared {
            monitor: Arc::new(monitor),
            cluster,
            options,
            state: Mutex::new(state),
            added: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// The api-server it works with.
    pub fn cluster(&self) -> &Cluster {
        &self.shared.cluster
    }

    /// The recipe that makes connections to it.
    #[must_use]
    pub fn connection(&self) -> &Connection {
        self.shared.cluster.connection()
    }

    /// The cache, to declare kinds and field indexes, and to read once it runs.
    pub fn cache(&self) -> &Cache {
        self.shared.cluster.cache()
    }

    /// The client that reads from the cache and writes to the server.
    pub fn client(&self) -> &Client {
        self.shared.cluster.client()
    }

    /// Where everything this manager runs counts what it does.
    #[must_use]
    pub fn metrics_registry(&self) -> &prometheus::Registry {
        &self.shared.options.registry
    }

    /// The names of the controllers declared so far, in order.
    #[must_use]
    pub fn controllers(&self) -> Vec<String> {
        self.shared
            .state
            .lock()
            .controllers
            .iter()
            .cloned()
            .collect()
    }

    /// How the manager is doing now: which kinds cannot be had and why, which controllers wait for them, and
    /// which handlers panicked. Asks nothing of a cluster, and may be called at any time.
    #[must_use]
    pub fn health(&self) -> Health {
        self.shared.monitor.health()
    }

    /// Adds something to run. It starts with its group, or now if the manager runs.
    ///
    /// # Errors
    ///
    /// [`Error::Stopping`].
    pub fn add(&self, runnable: impl Runnable) -> Result<(), Error> {
        self.add_erased(Erased::new(runnable))
    }

    /// Adds a controller that was built by itself. Its kinds are declared in the cache at once.
    ///
    /// # Errors
    ///
    /// [`Error::DuplicateController`]; [`Error::Controller`] where the cache refuses one of its kinds;
    /// [`Error::Stopping`].
    pub fn add_controller(&self, controller: Controller) -> Result<(), Error> {
        let name = controller.name().to_owned();
        self.reserve(&name)?;
        let added = self.add_reserved(controller, &name);
        if added.is_err() {
            // CACHE-13: the name is free again.
            self.shared.state.lock().controllers.remove(&name);
        }
        added
    }

    /// Takes the name of a controller, before anything is declared for it.
    fn reserve(&self, name: &str) -> Result<(), Error> {
        let mut state = self.shared.state.lock();
        if state.phase == Phase::Stopping {
            return Err(Error::Stopping { name: title(name) });
        }
        if state.controllers.insert(name.to_owned()) {
            Ok(())
        } else {
            let name = name.to_owned();
            Err(Error::DuplicateController { name })
        }
    }

    fn add_reserved(&self, controller: Controller, name: &str) -> Result<(), Error> {
        controller
            .declare(self.cache())
            .map_err(Error::Controller)?;
        let given = &self.shared.options.field_manager;
        let client = match controller.field_manager().or(given.as_deref()) {
            Some(given) => self.client().field_manager(given),
            // Two programs may have controllers of one name.
            None => self.client().for_controller(name),
        };
        let (status, kinds) = (controller.status(), controller.kinds().to_vec());
        // Not the manager itself: what it holds must not hold it.
        let (cluster, options) = (self.shared.cluster.clone(), self.shared.options.clone());
        self.add(from_fn(
            title(name),
            Group::LeaderElected,
            move |context| async move {
                let cancel = context.cancellation();
                let start = StartContext::new(
                    cluster.cache().clone(),
                    client,
                    cancel,
                    Arc::clone(&options.clock),
                )
                .grace(options.reconcile_grace().unwrap_or(A_LONG_TIME))
                .registry(options.registry.clone());
                Ok(controller.start(start).await?)
            },
        ))?;
        // CACHE-13: the health of a manager does not name a controller that was refused.
        self.shared.monitor.add_controller(status, kinds);
        Ok(())
    }

    /// Starts everything, and stops it when `shutdown` says so, or when something fails.
    ///
    /// The manager counts as started from the call on, also where its future is handed to a task: a cached
    /// read right after it waits for the first sync. It runs while the future is awaited.
    ///
    /// Returns `Ok` after a requested stop in which everything ended in time.
    ///
    /// # Errors
    ///
    /// What ended the manager ([`Error::Failed`], [`Error::Panicked`]), by name; [`Error::StopTimeout`] and
    /// [`Error::Aborted`] where something had to be dropped; [`Error::AlreadyStarted`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops everything it runs, without the order and the grace of a stop.
    pub fn start(
        &self,
        shutdown: impl Into<Shutdown>,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let shutdown = shutdown.into();
        let begun = self.begin();
        async move {
            let begun = begun?;
            let shared = &begun.manager.shared;
            let tasks = RunnableTasks::new(Arc::clone(&shared.monitor));
            let options = &shared.options;
            let supervision = Supervision::new(options.grace, options.last_moment());
            Box::pin(supervise(&**shared, tasks, supervision, shutdown)).await
        }
    }

    /// Begins all that was declared.
    fn begin(&self) -> Result<StartedManager, Error> {
        let mut declared = {
            let mut state = self.shared.state.lock();
            if state.phase != Phase::Declaring {
                return Err(Error::AlreadyStarted);
            }
            state.phase = Phase::Running;
            take(&mut state.waiting)
        };
        // Outside the lock: it is code of others.
        declared.iter_mut().for_each(Erased::begin);
        self.shared.state.lock().waiting.splice(..0, declared);
        let manager = self.clone();
        Ok(StartedManager { manager })
    }

    fn add_erased(&self, mut erased: Erased) -> Result<(), Error> {
        let mut begun = false;
        loop {
            let mut state = self.shared.state.lock();
            match state.phase {
                Phase::Stopping => {
                    drop(state);
                    return Err(Error::Stopping { name: erased.name });
                }
                // Outside the lock: it is code of others. The manager may stop meanwhile.
                Phase::Running if !begun => {
                    drop(state);
                    erased.begin();
                    begun = true;
                }
                Phase::Running | Phase::Declaring => {
                    state.waiting.push(erased);
                    break;
                }
            }
        }
        self.shared.added.notify_one();
        Ok(())
    }
}

impl Supervised for Shared {
    fn take_waiting(&self, which: impl Fn(&Erased) -> bool) -> Vec<Erased> {
        let mut state = self.state.lock();
        let (taken, left) = take(&mut state.waiting).into_iter().partition(which);
        state.waiting = left;
        taken
    }

    async fn added(&self) {
        self.added.notified().await;
    }

    fn refuse(&self) {
        self.state.lock().phase = Phase::Stopping;
    }
}

/// The name of a controller among the runnables of a manager.
fn title(controller: &str) -> String {
    format!("controller {controller:?}")
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("cluster", &self.shared.cluster)
            .field("options", &self.shared.options)
            .field("state", &*self.shared.state.lock())
            .finish()
    }
}
