//! Driver: a reconciler made of the two functions of an operator for kube-runtime.

use std::error::Error as StdError;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use steersman_object::{TypedObject, report};

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::reconcile::requested_object::requested_object;
use crate::request::Request;

/// A reconciler made of the functions of an operator for kube-runtime; see [`from_kube`].
#[derive(derive_more::Debug)]
#[debug("FromKube {{ .. }}")]
pub struct FromKube<K, F, P, C> {
    reconcile: F,
    error_policy: P,
    ctx: Arc<C>,
    kind: PhantomData<fn() -> K>,
}

/// The constructors of an [`Action`] under their names in kube-runtime.
///
/// With this trait in scope the functions that [`from_kube`] takes compile unchanged.
pub trait KubeActions: Sized {
    /// Runs the request again after `delay`: [`Action::requeue_after`].
    fn requeue(delay: Duration) -> Self;

    /// Runs the request again only when something changes: [`Action::done`].
    fn await_change() -> Self;
}

/// Makes a reconciler of the functions that `Controller::run` of kube-runtime takes: `reconcile`,
/// `error_policy`, and the context that both get.
///
/// The object comes from the cache. As in kube-runtime, `reconcile` does not run for an object that
/// does not exist. After an error, `error_policy` decides what follows:
///
/// | `error_policy` returns | What follows |
/// | --- | --- |
/// | `Action::requeue(d)` | the request again after `d`, or earlier if an event requests it; the error is logged, and the metrics count the run as `requeue_after` |
/// | `Action::await_change()` | no run until something changes, as after a [terminal](Error::terminal) error |
///
/// If reading the object fails, the request is retried with the backoff of the controller. To use that backoff for all
/// errors, turn `reconcile` into a function for [`of_object`](super::of_object), which has no error policy.
///
/// Unlike kube-runtime, a controller runs one reconcile at a time unless
/// [`max_concurrent_reconciles`](crate::ControllerBuilder::max_concurrent_reconciles) allows more, and
/// `owns` requests only the controlling owner.
///
/// ```
/// # use std::{convert::Infallible, sync::Arc, time::Duration};
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_controller::reconcile::{KubeActions as _, from_kube};
/// use steersman_controller::{Action, Controller};
///
/// struct Settings {
///     pause: Duration,
/// }
///
/// async fn reconcile(config: Arc<ConfigMap>, ctx: Arc<Settings>) -> Result<Action, Infallible> {
///     println!("visit {:?}", config.metadata.name);
///     Ok(Action::requeue(ctx.pause))
/// }
///
/// fn error_policy(_: Arc<ConfigMap>, error: &Infallible, ctx: Arc<Settings>) -> Action {
///     println!("{error}");
///     Action::requeue(ctx.pause)
/// }
///
/// let ctx = Arc::new(Settings { pause: Duration::from_secs(300) });
/// let controller = Controller::builder::<ConfigMap>().build(from_kube(reconcile, error_policy, ctx))?;
/// # Ok::<_, steersman_controller::ControllerError>(())
/// ```
pub fn from_kube<K, F, P, C, Fut, E>(
    reconcile: F,
    error_policy: P,
    ctx: Arc<C>,
) -> FromKube<K, F, P, C>
where
    K: TypedObject,
    F: Fn(Arc<K>, Arc<C>) -> Fut + Send + Sync + 'static,
    P: Fn(Arc<K>, &E, Arc<C>) -> Action + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: StdError + Send + Sync + 'static,
{
    FromKube {
        reconcile,
        error_policy,
        ctx,
        kind: PhantomData,
    }
}

impl KubeActions for Action {
    fn requeue(delay: Duration) -> Self {
        Self::requeue_after(delay)
    }

    fn await_change() -> Self {
        Self::done()
    }
}

impl<K, F, P, C, Fut, E> Reconciler for FromKube<K, F, P, C>
where
    K: TypedObject,
    F: Fn(Arc<K>, Arc<C>) -> Fut + Send + Sync + 'static,
    P: Fn(Arc<K>, &E, Arc<C>) -> Action + Send + Sync + 'static,
    C: Send + Sync + 'static,
    Fut: Future<Output = Result<Action, E>> + Send,
    E: StdError + Send + Sync + 'static,
{
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let Some(object) = requested_object::<K>(ctx, &request).await? else {
            return Ok(Action::done());
        };
        let reconciled = (self.reconcile)(Arc::clone(&object), Arc::clone(&self.ctx));
        let error = match reconciled.await {
            Ok(action) => return Ok(action),
            Err(error) => error,
        };
        let action = (self.error_policy)(object, &error, Arc::clone(&self.ctx));
        after_error(action, error)
    }
}

/// Returns the result of a reconcile that failed with `error`, for which the error policy returned `action`.
fn after_error(
    action: Action,
    error: impl StdError + Send + Sync + 'static,
) -> Result<Action, Error> {
    if action.requeue.is_none() {
        return Err(Error::from(error).terminal());
    }
    tracing::error!(error = %report(&error), "reconcile failed; the error policy runs it again later");
    Ok(action)
}

#[cfg(test)]
mod tests {
    use steersman_workqueue::Priority;

    use super::*;

    #[test]
    fn an_error_policy_that_requests_no_run_is_final_whatever_its_priority() {
        for action in [Action::done(), Action::done().priority(Priority::LOW)] {
            let ended = after_error(action, std::io::Error::other("no"));
            assert!(ended.is_err_and(|error| error.is_terminal()));
        }
        let again = Action::requeue_after(Duration::from_secs(1));
        assert_eq!(
            after_error(again, std::io::Error::other("no")).unwrap(),
            again
        );
    }
}
