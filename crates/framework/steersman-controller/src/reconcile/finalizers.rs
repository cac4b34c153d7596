//! Driver: adds several finalizers to an object, and runs their clean-ups in order when it is deleted.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use k8s_openapi::jiff::Timestamp;
use steersman_client::finalizer;
use steersman_object::TypedObject;
use steersman_object::status_conditions::{self, HasConditions, Progress, STALLED};

use crate::action::Action;
use crate::context::Context;
use crate::context::report::{ConditionsOf, ProgressReport};
use crate::error::{ControllerError, Error};

/// The reason of the Event and of the conditions of a clean-up that keeps failing.
const FAILED: &str = "CleanUpFailed";

/// The finalizers that one controller adds to objects of kind `K`, each with its clean-up.
///
/// [`run`](Self::run) adds the finalizers before the reconcile creates anything, and cleans up on deletion.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_controller::{Action, CleanUp, Context, Error, Finalized, Finalizers, Request};
/// # async fn delete_record(_: &ConfigMap) -> Result<(), Error> { Ok(()) }
/// # async fn delete_bucket(_: &ConfigMap) -> Result<(), Error> { Ok(()) }
/// fn finalizers() -> Finalizers<ConfigMap> {
///     Finalizers::new()
///         .add("example.com/dns", |site: Arc<ConfigMap>, _: Context| async move {
///             delete_record(&site).await?;
///             Ok(CleanUp::Done)
///         })
///         .add("example.com/bucket", |site: Arc<ConfigMap>, _: Context| async move {
///             delete_bucket(&site).await?;
///             Ok(CleanUp::Done)
///         })
/// }
///
/// async fn reconcile(
///     finalizers: &Finalizers<ConfigMap>,
///     ctx: &Context,
///     request: Request,
/// ) -> Result<Action, Error> {
///     let Some(site) = ctx.client().get_opt::<ConfigMap>(&request.key).await? else {
///         return Ok(Action::done());
///     };
///     let site = match finalizers.run(ctx, site).await? {
///         Finalized::Live(site) => site,
///         Finalized::Leaving(action) => return Ok(action),
///     };
///     println!("publish {:?}", site.metadata.name);
///     Ok(Action::done())
/// }
/// ```
#[derive(derive_more::Debug)]
#[debug("{:?}", steps.iter().map(|step| &step.finalizer).collect::<Vec<_>>())]
#[must_use]
pub struct Finalizers<K> {
    steps: Vec<FinalizerStep<K>>,
    failing_for: Duration,
    conditions: Option<ConditionsOf<K>>,
}

/// The result of [`Finalizers::run`], which decides how the reconcile goes on.
#[derive(Clone, Debug)]
#[must_use]
pub enum Finalized<K> {
    /// The object is not being deleted, and has every finalizer: reconcile it.
    Live(Arc<K>),
    /// The object is being deleted or gone: return the action from the reconcile.
    Leaving(Action),
}

/// The result of one clean-up that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum CleanUp {
    /// Nothing is left to clean up, and the finalizer can be removed.
    Done,
    /// Something is left to clean up: the clean-up runs again after this time.
    After(Duration),
}

struct FinalizerStep<K> {
    finalizer: String,
    clean_up: RunCleanUp<K>,
}

type RunCleanUp<K> =
    Box<dyn Fn(Arc<K>, Context) -> BoxFuture<'static, Result<CleanUp, Error>> + Send + Sync>;

impl<K: TypedObject> Finalizers<K> {
    /// Makes an empty list of finalizers.
    pub fn new() -> Self {
        Self {
            steps: Vec::new(),
            failing_for: Duration::from_secs(60),
            conditions: None,
        }
    }

    /// Adds a finalizer with its clean-up to the end of the list.
    ///
    /// Kubernetes requires names of the form `domain/name`. A clean-up must succeed if nothing is left: it runs again
    /// if the removal of its finalizer fails.
    pub fn add<F, Fut>(mut self, finalizer: impl Into<String>, clean_up: F) -> Self
    where
        F: Fn(Arc<K>, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<CleanUp, Error>> + Send + 'static,
    {
        self.steps.push(FinalizerStep {
            finalizer: finalizer.into(),
            clean_up: Box::new(move |object, ctx| clean_up(object, ctx).boxed()),
        });
        self
    }

    /// Sets how long an object must have been in deletion before a failing clean-up is reported. The default is one
    /// minute.
    pub fn report_after(mut self, failing_for: Duration) -> Self {
        self.failing_for = failing_for;
        self
    }

    /// Reports a clean-up that keeps failing in the conditions of the object as well:
    /// [`Progress::Failed`], with the reason `CleanUpFailed` and the finalizer and the error as the message.
    pub fn report_conditions(mut self) -> Self
    where
        K: HasConditions,
    {
        self.conditions = Some(ConditionsOf::of());
        self
    }

    /// Adds the finalizers that an object lacks, in one request, or cleans up if it is being deleted.
    ///
    /// The clean-ups run in the order of the list, one at a time. After each clean-up its finalizer is removed, so that
    /// a failure of a later clean-up does not repeat it (CTRL-34). Finalizers of other controllers stay, even if they
    /// change meanwhile. An object that was deleted meanwhile is cleaned up and gets no finalizers.
    ///
    /// # Errors
    ///
    /// [`ControllerError::CleanUp`] if a clean-up fails; terminal if the clean-up failed with a terminal error. If the
    /// object has been in deletion for the time of [`report_after`](Self::report_after), the failure is also reported
    /// as a Kubernetes Event. Otherwise the errors of the client.
    ///
    /// # Cancel safety
    ///
    /// A request that was sent is finished even if the future is dropped. A clean-up is dropped at an await, and runs
    /// again with the next reconcile.
    pub async fn run(&self, ctx: &Context, object: Arc<K>) -> Result<Finalized<K>, Error> {
        if object.is_being_deleted() {
            return self.clean_up(ctx, object).await;
        }
        let names: Vec<&str> = self.steps.iter().map(|step| &*step.finalizer).collect();
        let object = match ctx.client().add_finalizers(&*object, &names).await {
            Ok(added) => added.into_object(),
            Err(error) if error.is_not_found() => return Ok(Finalized::Leaving(Action::done())),
            Err(error) => return Err(error.into()),
        };
        match object.is_being_deleted() {
            // The response of the server shows a deletion that the object from the cache did not show.
            true => self.clean_up(ctx, object).await,
            false => Ok(Finalized::Live(object)),
        }
    }

    async fn clean_up(&self, ctx: &Context, mut object: Arc<K>) -> Result<Finalized<K>, Error> {
        for step in &self.steps {
            if !finalizer::contains(&*object, &step.finalizer) {
                continue;
            }
            match (step.clean_up)(Arc::clone(&object), ctx.clone()).await {
                Ok(CleanUp::Done) => {}
                Ok(CleanUp::After(delay)) => {
                    return Ok(Finalized::Leaving(Action::requeue_after(delay)));
                }
                Err(error) => {
                    self.report_failure(ctx, &object, step, &error).await;
                    let terminal = error.is_terminal();
                    let failed = Error::from(ControllerError::CleanUp {
                        finalizer: step.finalizer.clone(),
                        source: error.into(),
                    });
                    return Err(match terminal {
                        true => failed.terminal(),
                        false => failed,
                    });
                }
            }
            // CTRL-34: the finalizer is removed before the next clean-up begins. Otherwise a failure of the next
            // clean-up would repeat the finished clean-up.
            let removed = ctx.client().remove_finalizer(&*object, &step.finalizer);
            object = match removed.await {
                Ok(removed) => removed.into_object(),
                Err(error) if error.is_not_found() => break,
                Err(error) => return Err(error.into()),
            };
        }
        self.report_end(ctx, &object).await;
        Ok(Finalized::Leaving(Action::done()))
    }

    /// Reports a failed clean-up if the object has been in deletion for the time of `report_after`.
    async fn report_failure(
        &self,
        ctx: &Context,
        object: &K,
        step: &FinalizerStep<K>,
        error: &Error,
    ) {
        let deleted = object.meta().deletion_timestamp.as_ref();
        if !deleted.is_some_and(|deleted| self.is_overdue(deleted.0, ctx.now())) {
            return;
        }
        let message = format!("{}: {}", step.finalizer, error.chain());
        ctx.events().warning(object, FAILED, "CleanUp", &message);
        if let Some(conditions) = self.conditions {
            let report = ProgressReport {
                progress: Progress::Failed,
                reason: FAILED,
                message: &message,
                is_due: ctx.may_rewrite_messages(error),
            };
            let write = ctx.write_progress(object, conditions, report);
            unreported(write.await.err());
        }
    }

    /// Replaces the conditions of a failed clean-up after all clean-ups have succeeded, if finalizers of other
    /// controllers keep the object.
    async fn report_end(&self, ctx: &Context, object: &K) {
        let Some(conditions) = self.conditions else {
            return;
        };
        let stalled = status_conditions::find((conditions.get)(object), STALLED);
        let is_reported = stalled.is_some_and(|stalled| stalled.reason == FAILED);
        let is_kept = object
            .meta()
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty());
        if is_reported && is_kept {
            let report = ProgressReport {
                progress: Progress::Terminating,
                reason: "CleanedUp",
                message: "finalizers of other controllers keep the object",
                is_due: true,
            };
            let write = ctx.write_progress(object, conditions, report);
            unreported(write.await.err());
        }
    }

    fn is_overdue(&self, deleted: Timestamp, now: Timestamp) -> bool {
        // A deletion time ahead of the local clock gives a negative span, which no `Duration` can hold: the clean-up is
        // not overdue.
        let failing_for = Duration::try_from(now.duration_since(deleted));
        failing_for.is_ok_and(|failing_for| failing_for >= self.failing_for)
    }
}

/// Logs that the conditions could not be written. The reconcile does not fail because of this error, so that only the
/// clean-ups decide its result.
fn unreported(error: Option<steersman_client::Error>) {
    if let Some(error) = error.filter(|error| !error.is_not_found()) {
        let error = steersman_object::report(&error);
        tracing::warn!(%error, "the conditions of an object in deletion could not be written");
    }
}

impl<K: TypedObject> Default for Finalizers<K> {
    fn default() -> Self {
        Self::new()
    }
}
