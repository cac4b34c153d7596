//! Handle: the builder that declares a controller: its watches, its options and its reconciler.

mod around;
mod retries;
pub(crate) mod watches;

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use steersman_client::check_field_manager;
use steersman_object::{Kind, OwnedKinds, PolicyRule, TypedObject};
use steersman_workqueue::Priority;

use crate::context::declared::{DeclaredKinds, PrimaryKind};
use crate::controller::Controller;
use crate::controller::declaration::NeededRule;
use crate::error::ControllerError;
use crate::handler::EventHandler;
use crate::handler::target::{ControllerTarget, Keyed, Primary};
use crate::options::{ControllerSettings, Options};
use crate::predicate::{EventSummary, Predicate, add_predicate};
use crate::reconcile::{BoxReconciler, Reconciler, boxed};
use crate::request::RequestKey;
use crate::running::ControllerParts;
use crate::status::ControllerStatus;
use crate::watch::declared::Watch;
use crate::watch::{AnyWatch, EventFilter, Sources};
use crate::worker::hooks::Hooks;

use watches::WatchSource;

/// Declares a controller; it makes no request and starts no task.
///
/// [`Controller::builder`] begins the declaration of a controller with a primary kind, and [`Controller::keyed`] that
/// of a controller with its own type of requests. [`build`](Self::build) makes the [`Controller`], which a manager
/// takes with `add_controller`.
///
/// A manager may have settings for every controller, which apply where this builder sets nothing, and settings for the
/// name of this controller, which replace those of this builder ([`ControllerDefaults`](crate::ControllerDefaults)).
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
///     .with_predicates(predicate::generation_changed())
///     .owns::<ConfigMap>()
///     .max_concurrent_reconciles(4)
///     .build(Rollouts)?;
/// assert_eq!(controller.name(), "deployment");
/// # Ok::<_, steersman_controller::ControllerError>(())
/// ```
#[derive(derive_more::Debug)]
#[debug("ControllerBuilder {{ name: {name:?}, settings: {:?}, .. }}", options.settings)]
#[must_use = "a builder does nothing until `build`"]
pub struct ControllerBuilder<P: ControllerTarget> {
    name: String,
    target: P,
    /// Makes the watch of the primary kind, and the layer that ends requests for paused objects; `None` for a
    /// controller without a primary kind.
    primary_parts: Option<MakeParts<P>>,
    /// The layers that [`layer`](Self::layer) puts around the reconciler, the outermost first.
    wrappers: Vec<Wrapper<P::Key>>,
    sources: Sources<P::Key>,
    event_filter: Option<EventFilter>,
    options: Options<P::Key>,
    hooks: Hooks<P::Key>,
    field_manager: Option<String>,
    on_every_replica: bool,
    needed_rules: Vec<NeededRule>,
}

type MakeParts<P> = fn(P, &ControllerStatus) -> PrimaryParts<<P as ControllerTarget>::Key>;

type Wrapper<R> = Box<dyn FnOnce(BoxReconciler<R>) -> BoxReconciler<R> + Send>;

struct PrimaryParts<R: RequestKey> {
    watch: Box<dyn AnyWatch<R>>,
    kind: PrimaryKind,
    /// The layer around the reconciler that ends requests for paused objects; `None` if the builder declares no pause.
    pause: Option<Wrapper<R>>,
}

impl Controller {
    /// Starts to declare a controller with requests for objects of the primary kind `K`.
    pub fn builder<K: TypedObject>() -> ControllerBuilder<Primary<K>> {
        let name = Kind::of::<K>().gvk().kind().to_lowercase();
        ControllerBuilder::new(name, Primary::new(), Some(Primary::parts))
    }

    /// Starts to declare a controller called `name` with requests of type `R`, which stand for something other than an
    /// object of a primary kind: a namespace, a pair of objects, or something outside the cluster.
    ///
    /// Without a primary kind, every watch needs [`handler::mapped`](crate::handler::mapped()) or a custom handler.
    pub fn keyed<R: RequestKey>(name: impl Into<String>) -> ControllerBuilder<Keyed<R>> {
        let keyed = Keyed {
            requests: PhantomData,
        };
        ControllerBuilder::new(name.into(), keyed, None)
    }
}

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Filters the events of the primary kind, and of no other watch. If this method is called twice, both predicates
    /// must let an event pass. In controller-runtime: `For` with `builder.WithPredicates`.
    pub fn with_predicates(mut self, predicate: impl Predicate<K>) -> Self {
        add_predicate(&mut self.target.predicate, predicate);
        self
    }

    /// Declares that no other program writes the status of the primary kind.
    ///
    /// An update of nothing but the status then counts as a write of this controller: the update still requests the
    /// object, but does not cut a backoff short (CTRL-4), so that a reconcile that writes its status and then fails is
    /// not retried before its backoff ends. By default such an update runs the object before the backoff ends: at once,
    /// and then after delays that double with each such run that fails (WQ-12). Do not call this method if a kubelet, a
    /// cloud provider or a user writes that status as well.
    pub fn sole_status_writer(mut self) -> Self {
        self.target.sole_status_writer = true;
        self
    }

    /// Watches the objects of kind `C` that objects of the primary kind control: the short form of
    /// [`watch`](Self::watch) with [`Watch::owned`]. In controller-runtime: `Owns`.
    pub fn owns<C: TypedObject>(self) -> Self {
        self.watch(Watch::owned::<C>())
    }
}

impl<K: TypedObject> OwnedKinds for ControllerBuilder<Primary<K>> {
    fn owns<C: TypedObject>(self) -> Self {
        self.owns::<C>()
    }
}

impl<P: ControllerTarget> ControllerBuilder<P> {
    fn new(name: String, target: P, primary_parts: Option<MakeParts<P>>) -> Self {
        Self {
            name,
            target,
            primary_parts,
            sources: Sources::default(),
            wrappers: Vec::new(),
            event_filter: None,
            options: Options {
                settings: ControllerSettings::new(),
                rate_limiter: None,
                at_most: None,
            },
            hooks: Hooks {
                on_error: None,
                at_least_every: None,
            },
            field_manager: None,
            on_every_replica: false,
            needed_rules: Vec::new(),
        }
    }

    /// Sets the name of the controller in logs and metrics. The default is the primary kind in lower case. Two
    /// controllers of one manager need different names.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Watches kind `W`; `handler` names the requests that an event causes. The short form of [`watch`](Self::watch)
    /// with [`Watch::of`]. In controller-runtime: `Watches`.
    pub fn watches<W: TypedObject>(self, handler: impl EventHandler<W, P>) -> Self {
        self.watch(Watch::of::<W>(handler))
    }

    /// Adds a source of requests. In controller-runtime: `Watches` and `WatchesRawSource`.
    ///
    /// The position of a watch appears in the log and in the [`ControllerStatus`] when its handler fails. Position 0 is
    /// the watch of the primary kind, if the controller has one. Next are the watches that the workers wait for, then
    /// the watches of other clusters, then all other sources, each group in the order of the calls.
    pub fn watch<S: WatchSource<P>>(mut self, watch: Watch<S>) -> Self {
        watch.source.declare(&mut self.sources);
        self
    }

    /// Filters the events of every watch of this controller, deletes included, before the predicate of the watch. If
    /// this method is called twice, both filters must let an event pass. In controller-runtime: `WithEventFilter`.
    pub fn with_event_filter(
        mut self,
        filter: impl Fn(&EventSummary<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.event_filter = Some(match self.event_filter {
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
    /// By default a controller waits without a limit for a kind that is missing or forbidden, logs each minute which
    /// kind is missing and how to correct that, and starts by itself once the kind is served (CTRL-7).
    pub fn require_sync(mut self, timeout: Duration) -> Self {
        self.options.settings.require_sync = Some(timeout);
        self
    }

    /// Sets the time limit of one reconcile. The default is no limit, and zero means no limit, too.
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

    /// Sets the priority of requests that initial lists and resyncs cause. The default is [`Priority::LOW`], so that
    /// live events go first; [`Priority::NORMAL`] gives these requests the priority of live events. Deletes always have
    /// normal priority (CTRL-5).
    pub fn initial_priority(mut self, priority: Priority) -> Self {
        self.options.settings.initial_priority = Some(priority);
        self
    }

    /// Takes every `turns`-th request by its age instead of its priority, so that requests of low priority do not wait
    /// forever. The default is 8; values below 2 count as 2.
    pub fn lower_priority_share(mut self, turns: u32) -> Self {
        self.options.settings.lower_priority_share = Some(turns);
        self
    }

    /// Runs the controller on every replica, leader or not (controller-runtime: `NeedLeaderElection: false`). Such a
    /// controller must not write objects that another replica writes. By default a manager with leader election runs a
    /// controller on the leader only.
    pub fn on_every_replica(mut self) -> Self {
        self.on_every_replica = true;
        self
    }

    /// Sets the field manager of the writes that reconciles make with [`Context::client`](crate::Context::client). It
    /// applies if a manager runs the controller.
    ///
    /// The default is the field manager of the manager's client options or, if these options name no field manager,
    /// `program/controller` ([`Client::for_controller`](steersman_client::Client::for_controller)).
    pub fn field_manager(mut self, name: impl Into<String>) -> Self {
        self.field_manager = Some(name.into());
        self
    }

    /// Declares a rule of RBAC that the reconciler needs, with the reason. It sends no request and grants nothing:
    /// `cargo steersman generate` adds the rule to the role of the program, and `cargo steersman doctor` checks that
    /// the cluster grants it.
    ///
    /// The rules that follow from the declaration need no call: to read the watched kinds, to create, patch and delete
    /// objects of the owned kinds, to write the status and the finalizers of a primary kind that the program defines,
    /// and to record Events. `needs_rule` is for everything else that the code does: other writes, subresources such as
    /// `pods/eviction`, and verbs that no request names, such as `bind`, `escalate` and `impersonate`.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::Deployment;
    /// use steersman_controller::Controller;
    /// use steersman_object::PolicyRule;
    ///
    /// let controller = Controller::builder::<Deployment>().needs_rule(
    ///     PolicyRule::new("apps", &["deployments/scale"], &["patch"]),
    ///     "scales Deployments at night",
    /// );
    /// ```
    pub fn needs_rule(mut self, rule: PolicyRule, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        self.needed_rules.push(NeededRule { rule, reason });
        self
    }

    /// Builds the controller with this reconciler. Sends no request and starts no task.
    ///
    /// # Errors
    ///
    /// [`ControllerError::EmptyName`], [`ControllerError::NoWorkers`], [`ControllerError::FieldManager`], and
    /// [`ControllerError::NothingWatched`] if neither a watch nor another source would ever cause a request.
    pub fn build(self, reconciler: impl Reconciler<P::Key>) -> Result<Controller, ControllerError> {
        self.check()?;
        let status = ControllerStatus::new(&self.name);
        let (mut sources, mut wrappers) = (self.sources, self.wrappers);
        let mut declared = DeclaredKinds {
            primary: None,
            owned: Some(std::mem::take(&mut sources.owned)),
        };
        if let Some(primary_parts) = self.primary_parts {
            let parts = primary_parts(self.target, &status);
            sources.watches.insert(0, parts.watch);
            declared.primary = Some(parts.kind);
            // The layer that ends requests for paused objects is the outermost, so that these requests reach no other
            // layer.
            wrappers.splice(..0, parts.pause);
        }
        let wrappers = wrappers.into_iter().rev();
        let parts = ControllerParts {
            name: self.name,
            sources,
            event_filter: self.event_filter,
            options: self.options,
            hooks: self.hooks,
            declared,
            reconciler: wrappers.fold(boxed(reconciler), |inner, wrapper| wrapper(inner)),
        };
        Ok(Controller::new(
            parts, status, self.field_manager, self.on_every_replica, self.needed_rules,
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
        if self.primary_parts.is_none() && self.sources.is_empty() {
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
