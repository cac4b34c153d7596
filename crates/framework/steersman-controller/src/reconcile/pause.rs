//! Driver: ends requests for paused objects before they reach the reconciler.

use std::sync::Arc;

use steersman_informer::Event;
use steersman_object::status_conditions::{self, PAUSED, TRUE};
use steersman_object::{Object, TypedObject};

use crate::action::Action;
use crate::context::Context;
use crate::context::report::ConditionsOf;
use crate::error::Error;
use crate::predicate::Predicate;
use crate::reconcile::requested_object::requested_object;
use crate::reconcile::{BoxReconciler, Reconciler};
use crate::request::Request;
use crate::status::ControllerStatus;

/// Decides which objects of a kind are paused, and whether a condition of the object reports the pause.
#[derive(Clone)]
pub(crate) struct PauseRule<K> {
    /// The functions that decide whether an object is paused: it is paused while at least one of them returns true.
    pub(crate) rules: Vec<IsPaused<K>>,
    pub(crate) conditions: Option<ConditionsOf<K>>,
}

type IsPaused<K> = Arc<dyn Fn(&K) -> bool + Send + Sync>;

/// Passes the events that the predicate of the watch passes, and updates that begin or end a pause.
pub(crate) struct PausePredicate<K> {
    pub(crate) inner: Arc<dyn Predicate<K>>,
    pub(crate) rule: PauseRule<K>,
}

/// A reconciler that ends requests for paused objects, and passes all other requests to `inner`.
pub(crate) struct Pausing<K> {
    pub(crate) rule: PauseRule<K>,
    pub(crate) status: ControllerStatus,
    pub(crate) inner: BoxReconciler,
}

/// Returns a function for [`ControllerBuilder::pause_when`](crate::ControllerBuilder::pause_when): an object is paused
/// if it has this annotation with a value other than `false`.
pub fn annotation<K: Object>(
    name: impl Into<String>,
) -> impl Fn(&K) -> bool + Clone + Send + Sync + 'static {
    let name = name.into();
    move |object: &K| {
        let annotations = object.meta().annotations.as_ref();
        let value = annotations.and_then(|annotations| annotations.get(&name));
        value.is_some_and(|value| value != "false")
    }
}

// === impl PauseRule ===

impl<K: Object> PauseRule<K> {
    pub(crate) fn never() -> Self {
        Self {
            rules: Vec::new(),
            conditions: None,
        }
    }

    pub(crate) fn add(&mut self, is_paused: impl Fn(&K) -> bool + Send + Sync + 'static) {
        self.rules.push(Arc::new(is_paused));
    }

    fn is_paused(&self, object: &K) -> bool {
        self.rules.iter().any(|is_paused| is_paused(object))
    }
}

impl<K: TypedObject> PauseRule<K> {
    /// Sets the condition `Paused` of a paused object, and removes it from an object that is not paused. Sends no
    /// request if the conditions stay the same.
    async fn report(&self, ctx: &Context, object: &K, is_paused: bool) -> Result<(), Error> {
        let Some(conditions) = self.conditions else {
            return Ok(());
        };
        if !is_paused && status_conditions::find((conditions.get)(object), PAUSED).is_none() {
            return Ok(());
        }
        let message = "the object is not reconciled until the pause ends";
        let paused =
            status_conditions::condition(object, PAUSED, TRUE, "Paused", message, ctx.now());
        let status = ctx.client().status();
        let write = status.modify(object, |object| {
            let conditions = (conditions.get_mut)(object);
            let _is_changed = match is_paused {
                true => status_conditions::set(conditions, paused.clone()),
                false => status_conditions::remove(conditions, PAUSED),
            };
        });
        match write.await {
            // "Not found" means that the object was deleted meanwhile, so there are no conditions to write.
            Err(error) if !error.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}

// === impl PausePredicate ===

impl<K: Object> Predicate<K> for PausePredicate<K> {
    fn passes(&self, event: &Event<K>) -> bool {
        // To apply the rule of the pause, both objects are decoded. This is done only for updates that the predicate of
        // the watch refuses, because all others pass anyway.
        self.inner.passes(event)
            || match (event.old(), event.current()) {
                (Some(old), Some(new)) if !event.is_resync() => {
                    self.rule.is_paused(&old.object()) != self.rule.is_paused(&new.object())
                }
                _ => false,
            }
    }
}

// === impl Pausing ===

impl<K: TypedObject> Reconciler for Pausing<K> {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let Some(object) = requested_object::<K>(ctx, &request).await? else {
            self.status.resumed(&request.key);
            return self.inner.reconcile(ctx, request).await;
        };
        // CTRL-32: a request for a paused object does not reach the reconciler.
        let is_paused = self.rule.is_paused(&object);
        if is_paused && self.status.paused(&request.key) {
            tracing::info!("the object is paused: it is not reconciled until the pause ends");
        }
        if !is_paused && self.status.resumed(&request.key) {
            tracing::info!("the pause of the object has ended: it is reconciled again");
        }
        self.rule.report(ctx, &object, is_paused).await?;
        match is_paused {
            true => Ok(Action::done()),
            false => self.inner.reconcile(ctx, request).await,
        }
    }
}
