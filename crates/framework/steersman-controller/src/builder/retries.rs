//! Handle: the methods of the builder that say when a request runs again, and how its failures are reported.

use std::sync::Arc;
use std::time::Duration;

use futures::future::FutureExt;
use steersman_cache::Cache;
use steersman_object::status_conditions::{self, FALSE, HasConditions, READY, condition};
use steersman_object::{TypedObject, report};
use steersman_workqueue::RateLimiter;

use super::ControllerBuilder;
use crate::context::Context;
use crate::context::report::differ_beyond_messages;
use crate::error::{Error, NoResult};
use crate::handler::target::{ControllerTarget, Primary};
use crate::request::Request;
use crate::worker::hooks::AtLeastEvery;

/// The longest interval of [`at_least_every`](ControllerBuilder::at_least_every); longer intervals are shortened to it,
/// because the queue supports no longer delay.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

impl<P: ControllerTarget> ControllerBuilder<P> {
    /// Sets the rate limiter, which decides how long a failed request waits for its retry. By default the delay of each
    /// request doubles from 5 ms to 1000 s. [`limiter`](crate::limiter) has other rate limiters.
    pub fn rate_limiter(mut self, rate_limiter: impl RateLimiter<P::Key>) -> Self {
        self.options.rate_limiter = Some(Box::new(rate_limiter));
        self
    }

    /// Sets how often a request that fails is retried. The default is no limit; zero is no retry.
    ///
    /// If the last retry fails, the request does not run again until something changes, and then has all its retries
    /// again (CTRL-21). [`Context::is_last_attempt`] is true in the last retry, and
    /// `steersman_controller_gave_up_total` counts the last retries that failed. A run that an event causes before a
    /// retry is due does not count as a retry.
    ///
    /// Most controllers need no limit of retries: the delay between retries grows to 1000 s, and the cause of a failure
    /// may disappear without an event.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.options.settings.max_retries = Some(retries);
        self
    }

    /// Reconciles each request at most `runs` times in any span of `per`, whatever events, timers and retries ask for.
    /// A request that comes too soon waits until the limit allows its run. By default there is no limit.
    ///
    /// The limit suits objects that other programs change more often than a reconcile is useful. Each request has its
    /// own limit. Zero runs count as 1, and a `per` of zero is no limit.
    pub fn at_most(mut self, runs: u32, per: Duration) -> Self {
        self.options.at_most = Some((runs, per));
        self
    }
}

impl<K: TypedObject> ControllerBuilder<Primary<K>> {
    /// Reconciles each object again at the latest `interval` after the end of its last run, for state that may change
    /// without an event. By default an object runs again only after an event, an action that asks for it, a failure or
    /// a resync.
    ///
    /// The interval is shortened by up to a tenth, so that requests that run together at the start do not stay
    /// together. A longer delay of [`Action::requeue_after`](crate::Action::requeue_after) is shortened, a retry keeps
    /// its own delay, and a request that is not retried (a [terminal](Error::terminal) error, or the last of
    /// [`max_retries`](Self::max_retries)) runs again after the interval, too. The request of an object that the cache
    /// no longer holds ends (CTRL-22). Zero removes the interval.
    pub fn at_least_every(mut self, interval: Duration) -> Self {
        let exists = |cache: &Cache, request: &Request| {
            cache.informers::<K>().is_ok_and(|informers| {
                let mut stores = informers.iter().map(|informer| informer.as_store());
                stores.any(|store| store.entry(&request.key).is_some())
            })
        };
        self.hooks.at_least_every = (!interval.is_zero()).then(|| AtLeastEvery {
            interval: interval.min(LONGEST_INTERVAL),
            exists: Box::new(exists),
        });
        self
    }

    /// Writes the failure of a reconcile into the status of its object: `write` changes the status of a copy, and the
    /// controller sends the difference between the copy and the object, if they differ.
    ///
    /// `write` is called after each reconcile that failed, panicked or was dropped past its deadline, before the
    /// request is retried (CTRL-23). After a panic or a dropped reconcile the error is only a text, without causes. The
    /// context is that of the failed reconcile, with its [`attempt`](Context::attempt) and
    /// [`is_last_attempt`](Context::is_last_attempt). Nothing is written for an object that is gone. A failed write is
    /// logged as a warning, and changes nothing about the retry. The hook is dropped if it takes longer than
    /// [`deadline_grace`](Self::deadline_grace). After a conflict `write` runs again on the new object.
    ///
    /// Write nothing that differs with each attempt, such as a time: each difference is a request and an event.
    ///
    /// ```
    /// # use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition};
    /// # use steersman_controller::{Action, Context, Controller, Error, Request, reconcile};
    /// # let reconciler = reconcile::from_fn(|_: Context, _: Request| async { Ok::<_, Error>(Action::done()) });
    /// let controller = Controller::builder::<Deployment>()
    ///     .on_error(|_, error, site| {
    ///         let conditions = site.status.get_or_insert_default().conditions.get_or_insert_default();
    ///         conditions.retain(|condition| condition.type_ != "Synced");
    ///         conditions.push(DeploymentCondition {
    ///             type_: "Synced".to_owned(),
    ///             status: "False".to_owned(),
    ///             message: Some(error.chain()),
    ///             ..DeploymentCondition::default()
    ///         });
    ///     })
    ///     .build(reconciler)?;
    /// # Ok::<_, steersman_controller::ControllerError>(())
    /// ```
    pub fn on_error(
        mut self,
        write: impl Fn(&Context, &Error, &mut K) + Send + Sync + 'static,
    ) -> Self {
        let write = Arc::new(write);
        self.hooks.on_error = Some(Box::new(move |ctx, request, error| {
            let write = Arc::clone(&write);
            async move {
                let written = write_status(ctx, request, |object| write(ctx, error, object)).await;
                if let Err(refused) = written {
                    warn_of_refusal(&refused);
                }
            }
            .boxed()
        }));
        self
    }
}

impl<K: TypedObject + HasConditions> ControllerBuilder<Primary<K>> {
    /// Shows lasting failures of reconciles on their objects: the condition `Ready` becomes `False`, with the error and
    /// its causes as the message, and an Event of type `Warning` has the same text. The reconciler sets `Ready` again
    /// when it succeeds.
    ///
    /// | Reason | The reconcile |
    /// | --- | --- |
    /// | `ReconcileFailed` | failed with a [terminal](Error::terminal) error or in its last attempt, or failed five times in a row |
    /// | `ReconcilePanicked` | panicked |
    /// | `ReconcileTimedOut` | was dropped past its deadline |
    ///
    /// The first four failures in a row are not shown, because they may pass: by default the fifth comes only 75 ms
    /// after the first. A report that would change only the message is sent less and less often (CTRL-33). The text is
    /// visible to every reader of the object. A builder has one hook for errors: the later call of this method or
    /// [`on_error`](Self::on_error) wins.
    pub fn report_failures(mut self) -> Self {
        self.hooks.on_error = Some(Box::new(|ctx, request, error| {
            let report = async move {
                // CTRL-35: a failure that the next retries may overcome is not reported.
                let Some(reason) = lasting_reason(ctx, error) else {
                    return;
                };
                let message = error.chain();
                let (now, is_due) = (ctx.now(), ctx.may_rewrite_messages(error));
                let reported = write_status(ctx, request, |object: &mut K| {
                    let ready = condition(object, READY, FALSE, reason, &message, now);
                    let present = object.conditions_mut();
                    let mut updated = present.clone();
                    status_conditions::set(&mut updated, ready);
                    if is_due || differ_beyond_messages(present, &updated) {
                        *present = updated;
                    }
                });
                match reported.await {
                    Ok(Some(object)) => ctx
                        .events()
                        .warning(&*object, reason, "Reconcile", &message),
                    Ok(None) => {}
                    Err(refused) => warn_of_refusal(&refused),
                }
            };
            report.boxed()
        }));
        self
    }
}

/// The number of consecutive failures of a request that are not reported, because the next retry may succeed.
const PASSING_FAILURES: u32 = 4;

/// Returns the reason for the condition and the Event of a failure that lasts; `None` for a failure that the next
/// retries may overcome.
fn lasting_reason(ctx: &Context, error: &Error) -> Option<&'static str> {
    match error.downcast_ref::<NoResult>() {
        Some(NoResult::Panicked(_)) => Some("ReconcilePanicked"),
        Some(NoResult::TimedOut) => Some("ReconcileTimedOut"),
        None => {
            let lasts =
                error.is_terminal() || ctx.is_last_attempt() || ctx.attempt() >= PASSING_FAILURES;
            lasts.then_some("ReconcileFailed")
        }
    }
}

fn warn_of_refusal(refused: &steersman_client::Error) {
    tracing::warn!(
        error = %report(refused),
        "the failure of the reconcile cannot be written into the status of its object"
    );
}

/// Changes the status of the object of a request with `write`. Returns the object as it was read before; `None` if the
/// object does not exist.
async fn write_status<K: TypedObject>(
    ctx: &Context,
    request: &Request,
    write: impl FnMut(&mut K) + Send,
) -> Result<Option<Arc<K>>, steersman_client::Error> {
    let client = ctx.client();
    let Some(object) = client.get_opt::<K>(&request.key).await? else {
        return Ok(None);
    };
    match client.status().modify(&*object, write).await {
        Err(error) if error.is_not_found() => Ok(None),
        written => written.map(|_| Some(object)),
    }
}
