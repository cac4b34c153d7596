//! Handle: makes handlers of typed validators.

use std::future::ready;
use std::marker::PhantomData;

use steersman_object::{Gvk, Object};

use crate::context::AdmissionContext;
use crate::handler::AdmissionHandler;
use crate::refusal::Refusal;
use crate::request::Operation;
use crate::response::AdmissionResponse;
use crate::typed::{check_kind, decoded};

/// Decides whether objects of one kind may be created, changed or deleted.
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// use steersman_webhook::{AdmissionContext, Refusal, Validator};
///
/// struct Limits;
///
/// impl Validator<Deployment> for Limits {
///     async fn validate_create(&self, new: &Deployment, ctx: &AdmissionContext) -> Result<(), Refusal> {
///         match new.spec.as_ref().and_then(|spec| spec.replicas) {
///             Some(100..) => Err(Refusal::denied("at most 99 replicas")),
///             Some(0) => Ok(ctx.warn("no replicas: the application will not run")),
///             _ => Ok(()),
///         }
///     }
///
///     async fn validate_update(
///         &self,
///         _old: &Deployment,
///         new: &Deployment,
///         ctx: &AdmissionContext,
///     ) -> Result<(), Refusal> {
///         self.validate_create(new, ctx).await
///     }
/// }
/// ```
///
/// The API server calls a validator after all defaulters. [`AdmissionContext::warn`] adds warnings. `CONNECT` requests
/// are allowed without a call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a validator of `{K}`",
    note = "implement `Validator<{K}>` with `validate_create` and `validate_update`; deletions are allowed by default"
)]
pub trait Validator<K: Sync>: Send + Sync + 'static {
    /// Decides about a new object.
    ///
    /// # Errors
    ///
    /// Why the request is refused.
    fn validate_create(
        &self,
        new: &K,
        ctx: &AdmissionContext,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Decides about a change of an object, or of its subresource if the rules of the webhook name one.
    ///
    /// # Errors
    ///
    /// Why the request is refused.
    fn validate_update(
        &self,
        old: &K,
        new: &K,
        ctx: &AdmissionContext,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Decides about a deletion. The default allows it.
    ///
    /// # Errors
    ///
    /// Why the request is refused.
    fn validate_delete(
        &self,
        _old: &K,
        _ctx: &AdmissionContext,
    ) -> impl Future<Output = Result<(), Refusal>> + Send {
        ready(Ok(()))
    }
}

pub(crate) struct ValidatorHandler<K, V> {
    kind: Gvk,
    validator: V,
    of: PhantomData<fn() -> K>,
}

impl<K: Object, V: Validator<K>> ValidatorHandler<K, V> {
    pub(crate) fn new(kind: Gvk, validator: V) -> Self {
        Self {
            kind,
            validator,
            of: PhantomData,
        }
    }

    async fn decide(&self, ctx: &AdmissionContext) -> Result<(), Refusal> {
        let request = ctx.request();
        if request.operation == Operation::Connect {
            return Ok(());
        }
        check_kind(request, &self.kind)?;
        let new = || decoded::<K>(request, request.object.as_ref(), "object");
        let old = || decoded::<K>(request, request.old_object.as_ref(), "old object");
        match request.operation {
            Operation::Create => self.validator.validate_create(&new()?, ctx).await,
            Operation::Update => self.validator.validate_update(&old()?, &new()?, ctx).await,
            Operation::Delete => self.validator.validate_delete(&old()?, ctx).await,
            Operation::Connect => Ok(()),
        }
    }
}

impl<K: Object, V: Validator<K>> AdmissionHandler for ValidatorHandler<K, V> {
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        self.decide(ctx).await.into()
    }
}
