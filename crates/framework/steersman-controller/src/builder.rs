//! Handle: the builder that declares a controller: what it watches, and how it works.

mod around;
mod retries;
mod sources;
mod kinds;
mod rules;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::check_field_manager;
use steersman_informer::Event;
use steersman_object::{Kind, OwnedKinds, TypedObject};
use steersman_workqueue::Priority;

use crate::context::declared::{DeclaredKinds, PrimaryKind};
use crate::controller::Controller;
use crate::controller::declaration::NeededRule;
use crate::error::ControllerError;
use crate::handler::{EventHandler, Itself, itself, owner};
use crate::options::Options;
use crate::predicate::{EventSummary, Everything, Predicate};
use crate::reconcile::pause::PauseRule;
use crate::reconcile::{BoxReconciler, Reconciler};
use crate::request::ClusterRequest;
use crate::request::{Request, RequestKey};
use crate::running::Parts;
use crate::status::ControllerStatus;
use crate::watch::in_clusters::{AnyClusterWatch, ClusterWatch};
use crate::watch::{AnySource, AnyWatch, FilterAll, Watch};
use crate::worker::hooks::Hooks;

/// Declares a controller; it makes no request and starts no task.
///
/// [`Controller::builder`] begins the declaration of a controller with a primary kind, and
/// [`Controller::keyed`] that of a controller with its own type of requests. Either way
/// [`build`](Self::build) makes a [`Controller`], which a manager takes with `add_controller`.
///
/// A manager may have settings for every controller, which the settings of this builder replace, and for
/// this controller by its name, which replace those of this builder
/// ([`ControllerDefaults`](crate::ControllerDefaults)).
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
/// # use steersman_controller::{handler, predicate};
/// # struct Rollouts;
/// # impl Reconciler for Rollouts {
/// #     async fn reconcile(&self, _: &Context, _: Request) -> Result<Action, Error> {
/// #         Ok(Action::done())
/// #     }
/// # }
/// let controller = Controller::builder::<Deployment>()
///     .for_filter(predicate::generation_changed())
///     .owns::<ConfigMap>()
///     .max_concurrent_reconciles(4)
///     .build(Rollouts)?;
/// assert_eq!(controller.name(), "deployment");
/// # Ok::<_, steersman_controller::ControllerError>(())
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct ControllerBuilder<P: Subject> {
    name: String,
    subject: P,
    /// Makes the parts of the primary kind; `None` if there is no primary kind.
    primary_parts: Option<MakeParts<P>>,
    /// The kinds of `owns`.
    owned: Vec<Kind>,
    watches: Vec<Box<dyn AnyWatch<P::Key>>>,
    /// What is put around the reconciler, the outermost first.
    wrappers: Vec<Wrapper<P::Key>>,
    cluster_watches: Vec<Arc<dyn AnyClusterWatch<P::Key>>>,
    sources: Vec<Box<dyn AnySource<P::Key>>>,
    filter_all: Option<FilterAll>,
    options: Options<P::Key>,
    hooks: Hooks<P::Key>,
    field_manager: Option<String>,
    on_every_replica: bool,
    needed_rules: Vec<NeededRule>,
}

/// Makes the parts of a primary kind.
type MakeParts<P> = fn(P, &ControllerStatus) -> PrimaryParts<<P as Subject>::Key>;

/// Puts something around a reconciler.
type Wrapper<R> = Box<dyn FnOnce(BoxReconciler<R>) -> BoxReconciler<R> + Send>;

/// What a controller has because of its primary kind.
struct PrimaryParts<R: RequestKey> {
    watch: Box<dyn AnyWatch<R>>,
    kind: PrimaryKind,
    /// Keeps requests for paused objects from the reconciler.
    pause: Option<Wrapper<R>>,
}

/// What the requests of a controller are about: a [`Primary`] kind, or [`Keyed`] requests.
///
/// No other type implements it.
pub trait Subject: sealed::Sealed {
    /// The type of the controller's requests.
    type Key: RequestKey;
}

/// The subject of a controller with requests for objects of the kind `K`.
pub struct Primary<K: TypedObject> {
    predicate: Box<dyn Predicate<K>>,
    handler: Itself,
    pause: PauseRule<K>,
}

/// The subject of a controller with requests of type `R`.
pub struct Keyed<R> {
    requests: PhantomData<fn(R)>,
}

mod sealed {
    #[expect(
        unnameable_types,
        reason = "so that no other crate can implement `Subject`"
    )]
    pub trait Sealed {}
}

impl Controller {
    /// Starts to declare a controller with requests for objects of the primary kind `K`.
    pub fn builder<K: TypedObject>() -> ControllerBuilder<Primary<K>> {
        let primary = Primary {
            predicate: Box::new(Everything),
            handler: itself(),
            pause: PauseRule::never(),
        };
        let name = Kind::of::<K>().gvk().kind().to_lowercase();
        ControllerBuilder::new(name, primary, Some(Primary::parts))
    }

    /// Starts to declare a controller called `name` with requests of type `R`, which stand for
    /// something other than an object of a primary kind: a namespace, a pair of objects, or
    /// something outside the cluster.
    ///
    /// Without a primary kind, every watch needs [`handler::mapped`](crate::handler::mapped()) or a
    /// custom handler to create requests.
    pub fn keyed<R: RequestKey>(name: impl Into<String>) -> ControllerBuilder<Keyed<R>> {
        let keyed = Keyed {
            requests: PhantomData,
        };
        ControllerBuilder::new(name.into(), keyed, None)
    }
}

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Filters the events of the primary kind, and of no other watch. If given twice, both predicates
    /// must let an event pass.
    pub fn for_filter(mut self, predicate: impl Predicate<K>) -> Self {
        self.subject.predicate = Box::new(Both(self.subject.predicate, Box::new(predicate)));
        self
    }

    /// Declares that no other program writes the status of the primary kind.
    ///
    /// An update of nothing but the status is then taken for the controller's own: it still requests
    /// the object, but does not cut a backoff short (CTRL-4), so that a reconcile that writes its
    /// status and then fails is not retried before its backoff ends. By default an update of nothing but the
    /// status runs the object before that: at once, and with growing pauses the more of these runs fail
    /// (WQ-12). Do not call this if a kubelet, a cloud provider or a user
    /// writes that status as well.
    pub fn sole_status_writer(mut self) -> Self {
        self.subject.handler = self.subject.handler.sole_status_writer();
        self
    }

    /// Watches the objects of kind `C` that objects of the primary kind control: an event of one
    /// requests its controlling owner.
    ///
    /// [`watches`](Self::watches) with [`handler::owner`](crate::handler::owner()) requests every
    /// owner of the primary kind, controlling or not.
    ///
    /// The roles of `cargo steersman generate` let the program create, patch and delete objects of an owned
    /// kind, and only read those of a watched one.
    pub fn owns<C: TypedObject>(self) -> Self {
        self.owns_with::<C>(Everything)
    }

    /// Watches like [`owns`](Self::owns), but only events that `predicate` lets pass.
    pub fn owns_with<C: TypedObject>(mut self, predicate: impl Predicate<C>) -> Self {
        self.owned.push(Kind::of::<C>());
        self.watches_with::<C>(owner::<K>().controller_only(), predicate)
    }
}

impl<K: TypedObject> OwnedKinds for ControllerBuilder<Primary<K>> {
    fn owns<C: TypedObject>(self) -> Self {
        self.owns::<C>()
    }
}

impl ControllerBuilder<Keyed<ClusterRequest>> {
    /// Watches kind `W` in each cluster that the manager has besides its own, those that are added later
    /// included; `handler` names the requests, and the framework adds the cluster to them.
    ///
    /// The workers do not wait for the first syncs of these clusters (CTRL-12): the reads of
    /// [`Context::client_in`](crate::Context::client_in) do.
    pub fn watches_in_clusters<W: TypedObject>(
        self,
        handler: impl EventHandler<W, Request>,
    ) -> Self {
        self.watches_in_clusters_with::<W>(handler, Everything)
    }

    /// Watches like [`watches_in_clusters`](Self::watches_in_clusters), but only events that `predicate`
    /// lets pass.
    pub fn watches_in_clusters_with<W: TypedObject>(
        mut self,
        handler: impl EventHandler<W, Request>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = ClusterWatch::<W>::new(predicate, handler);
        self.cluster_watches.push(Arc::new(watch));
        self
    }
}

impl<P: Subject> ControllerBuilder<P> {
    fn new(name: String, subject: P, primary_parts: Option<MakeParts<P>>) -> Self {
        Self {
            name,
            subject,
            primary_parts,
            owned: Vec::new(),
            watches: Vec::new(),
            wrappers: Vec::new(),
            cluster_watches: Vec::new(),
            sources: Vec::new(),
            filter_all: None,
            options: Options::default(),
            hooks: Hooks::default(),
            field_manager: None,
            on_every_replica: false,
            needed_rules: Vec::new(),
        }
    }

    /// Names the controller in logs and metrics. The default is the primary kind in lower case. Two
    /// controllers of one manager need two names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Watches kind `W`; `handler` names the requests that an event causes.
    pub fn watches<W: TypedObject>(self, handler: impl EventHandler<W, P::Key>) -> Self {
        self.watches_with::<W>(handler, Everything)
    }

    /// Watches like [`watches`](Self::watches), but only events that `predicate` lets pass.
    pub fn watches_with<W: TypedObject>(
        mut self,
        handler: impl EventHandler<W, P::Key>,
        predicate: impl Predicate<W>,
    ) -> Self {
        let watch = Watch::<W, P::Key>::new(Box::new(predicate), handler);
        self.watches.push(Box::new(watch));
        self
    }

    /// Filters the events of every watch of this controller, deletes included, before the predicate of
    /// the watch. If given twice, both filters must let an event pass.
    pub fn filter_all(
        mut self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter_all = Some(match self.filter_all {
            Some(first) => Arc::new(move |event: &EventSummary<'_>| first(event) && filter(event)),
            None => Arc::new(filter),
        });
        self
    }

    /// Sets the number of requests that are reconciled at the same time. The default is 1.
    pub fn max_concurrent_reconciles(mut self, workers: usize) -> Self {
        self.options.settings.max_concurrent_reconciles = Some(workers);
        self
    }

    /// Ends the controller with [`ControllerError::Sync`], and with it its manager, if a watched kind
    /// has not had its first sync `timeout` after the start. Zero removes the limit.
    ///
    /// By default a controller waits as long as a kind is missing or forbidden, logs each minute what
    /// is missing and how to correct it, and starts by itself once the kind is there (CTRL-7).
    pub fn require_sync(mut self, timeout: Duration) -> Self {
        self.options.settings.require_sync = Some(timeout);
        self
    }

    /// Sets how long a reconcile may take. The default is no limit, and so is zero.
    ///
    /// At the deadline [`Context::cancelled`](crate::Context::cancelled) fires, and after
    /// [`deadline_grace`](Self::deadline_grace) the reconcile is dropped at its next await and retried
    /// with backoff. Code that never awaits cannot be dropped.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.options.settings.deadline = Some(deadline);
        self
    }

    /// Sets how long a reconcile may go on after its [`deadline`](Self::deadline). The default is 5 s.
    pub fn deadline_grace(mut self, grace: Duration) -> Self {
        self.options.settings.deadline_grace = Some(grace);
        self
    }

    /// Sets the priority of requests that initial lists and resyncs cause. The default is
    /// [`Priority::LOW`], so that live events go first; [`Priority::NORMAL`] treats them like all others.
    /// Deletes always have normal priority (CTRL-5).
    pub fn initial_priority(mut self, priority: Priority) -> Self {
        self.options.settings.initial_priority = Some(priority);
        self
    }

    /// Gives one turn in `turns` to the oldest request, whatever its priority, while there are requests of
    /// several priorities. The default is 8; values below 2 count as 2.
    pub fn lower_priority_share(mut self, turns: u32) -> Self {
        self.options.settings.lower_priority_share = Some(turns);
        self
    }

    /// Runs the controller on every replica, leader or not (controller-runtime: `NeedLeaderElection: false`). It must
    /// not write what another replica writes. By default a manager with leader election runs it on the leader only.
    pub fn on_every_replica(mut self) -> Self {
        self.on_every_replica = true;
        self
    }

    /// Sets the field manager of the writes that reconciles make with
    /// [`Context::client`](crate::Context::client) where a manager runs the controller.
    ///
    /// The default is the field manager of the manager's client options, and `program/controller` if
    /// they name none ([`Client::for_controller`](steersman_client::Client::for_controller)).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Completes the declaration.
    ///
    /// # Errors
    ///
    /// [`ControllerError::EmptyName`], [`ControllerError::NoWorkers`],
    /// [`ControllerError::FieldManager`], and [`ControllerError::NothingWatched`] if neither a watch
    /// nor another source would ever cause a request.
    pub fn build(self, reconciler: impl Reconciler<P::Key>) -> Result<Controller, ControllerError> {
        self.check()?;
        let status = ControllerStatus::new(&self.name);
        let (mut watches, mut wrappers) = (self.watches, self.wrappers);
        let mut declared = DeclaredKinds::owning(self.owned);
        if let Some(primary_parts) = self.primary_parts {
            let parts = primary_parts(self.subject, &status);
            watches.insert(0, parts.watch);
            declared.primary = Some(parts.kind);
            // The pause is outermost, so that a request for a paused object reaches no layer.
            wrappers.splice(..0, parts.pause);
        }
        let parts = Parts {
            name: self.name,
            watches,
            cluster_watches: self.cluster_watches,
            sources: self.sources,
            filter_all: self.filter_all,
            options: self.options,
            hooks: self.hooks,
            declared,
            reconciler,
        };
        let (field_manager, on_every_replica) = (self.field_manager, self.on_every_replica);
        let rules = self.needed_rules;
        if wrappers.is_empty() {
            return Ok(Controller::new(
                parts,
                status,
                field_manager,
                on_every_replica,
                rules,
            ));
        }
        let parts = parts.map(|reconciler| around::wrap(reconciler, wrappers));
        Ok(Controller::new(
            parts,
            status,
            field_manager,
            on_every_replica,
            rules,
        ))
    }

    fn check(&self) -> Result<(), ControllerError> {
        let controller = || self.name.clone();
        if self.name.trim().is_empty() {
            return Err(ControllerError::EmptyName);
        }
        if self.options.settings.max_concurrent_reconciles == Some(0) {
            return Err(ControllerError::NoWorkers {
                controller: controller(),
            });
        }
        let watches = self.primary_parts.is_some() || !self.watches.is_empty();
        if !watches && self.cluster_watches.is_empty() && self.sources.is_empty() {
            return Err(ControllerError::NothingWatched {
                controller: controller(),
            });
        }
        match self.field_manager.as_deref().map(check_field_manager) {
            Some(Err(source)) => Err(ControllerError::FieldManager {
                controller: controller(),
                source,
            }),
            _ => Ok(()),
        }
    }
}

impl<K: TypedObject> Subject for Primary<K> {
    type Key = Request;
}

impl<R: RequestKey> Subject for Keyed<R> {
    type Key = R;
}

impl<K: TypedObject> sealed::Sealed for Primary<K> {}

impl<R: RequestKey> sealed::Sealed for Keyed<R> {}

/// The predicates of several calls of `for_filter`.
struct Both<K>(Box<dyn Predicate<K>>, Box<dyn Predicate<K>>);

impl<K: TypedObject> Predicate<K> for Both<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        self.0.passes(event) && self.1.passes(event)
    }
}

impl<K: TypedObject> fmt::Debug for Primary<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Primary").finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for Keyed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").finish_non_exhaustive()
    }
}

impl<P: Subject> fmt::Debug for ControllerBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ControllerBuilder")
            .field("name", &self.name)
            .field("watches", &self.watches.len())
            .field("sources", &self.sources.len())
            .field("options", &self.options)
            .field("hooks", &self.hooks)
            .finish_non_exhaustive()
    }
}
