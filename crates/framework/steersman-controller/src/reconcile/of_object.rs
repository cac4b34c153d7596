//! Driver: a reconciler that gets the object instead of its key.

use std::marker::PhantomData;
use std::sync::Arc;

use steersman_object::TypedObject;

use crate::action::Action;
use crate::context::Context;
use crate::error::Error;
use crate::reconcile::Reconciler;
use crate::reconcile::requested_object::requested_object;
use crate::request::Request;

/// A reconciler made of a function of an object; see [`of_object`].
#[derive(derive_more::Debug)]
#[debug("ObjectReconciler {{ .. }}")]
pub struct ObjectReconciler<K, F> {
    function: F,
    kind: PhantomData<fn() -> K>,
}

/// Makes a reconciler of a function that gets the object, as the cache has it, instead of its key.
///
/// The function does not run for an object that does not exist: the garbage collector deletes the children, and a
/// [finalizer](crate::Finalizers) cleans up everything else. It does not run for an object outside the scope of the
/// cache either, such as one of a namespace that was removed while its request waited. In controller-runtime:
/// `reconcile.AsReconciler`. [`from_kube`](super::from_kube) takes functions with the arguments of kube-runtime.
///
/// ```
/// # use std::sync::Arc;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # use steersman_controller::{Action, Context, Error, Reconciler, reconcile};
/// # fn assert_reconciler(_: impl Reconciler) {}
/// async fn visit(config: Arc<ConfigMap>, ctx: Context) -> Result<Action, Error> {
///     println!("{} visits {:?}", ctx.controller(), config.metadata.name);
///     Ok(Action::done())
/// }
///
/// assert_reconciler(reconcile::of_object(visit));
/// ```
pub fn of_object<K, F, Fut>(function: F) -> ObjectReconciler<K, F>
where
    K: TypedObject,
    F: Fn(Arc<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    ObjectReconciler {
        function,
        kind: PhantomData,
    }
}

impl<K, F, Fut> Reconciler for ObjectReconciler<K, F>
where
    K: TypedObject,
    F: Fn(Arc<K>, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Action, Error>> + Send,
{
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        match requested_object::<K>(ctx, &request).await? {
            Some(object) => (self.function)(object, ctx.clone()).await,
            None => Ok(Action::done()),
        }
    }
}
