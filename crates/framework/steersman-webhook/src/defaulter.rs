//! Handle: makes handlers of typed defaulters.

use std::marker::PhantomData;

use serde::Serialize;
use serde_json::Value;
use steersman_object::{Gvk, Object};

use crate::context::AdmissionContext;
use crate::handler::AdmissionHandler;
use crate::refusal::{Refusal, failed};
use crate::request::Operation;
use crate::response::AdmissionResponse;
use crate::typed::{check_kind, decoded};
use crate::unknown_fields::with_changes;

/// Sets the defaults of objects of one kind before they are stored.
///
/// ```
/// # use k8s_openapi::api::apps::v1::Deployment;
/// use steersman_webhook::{AdmissionContext, Defaulter, Refusal};
///
/// struct Replicas;
///
/// impl Defaulter<Deployment> for Replicas {
///     async fn default(&self, deployment: &mut Deployment, _: &AdmissionContext) -> Result<(), Refusal> {
///         deployment.spec.get_or_insert_default().replicas.get_or_insert(2);
///         Ok(())
///     }
/// }
/// ```
///
/// Only what a defaulter changes is sent to the API server: a field that `K` does not have stays as the client wrote it
/// (ADMIT-2). A defaulter must set the same values if it is called again with its own result, because the API server
/// does that. Deletions and `CONNECT` requests are allowed without a call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a defaulter of `{K}`",
    note = "implement `Defaulter<{K}>` with `async fn default(&self, object: &mut {K}, ctx: &AdmissionContext) -> \
            Result<(), Refusal>`"
)]
pub trait Defaulter<K>: Send + Sync + 'static {
    /// Sets the defaults of an object.
    ///
    /// # Errors
    ///
    /// Why the request is refused.
    fn default(
        &self,
        object: &mut K,
        ctx: &AdmissionContext,
    ) -> impl Future<Output = Result<(), Refusal>> + Send;
}

pub(crate) struct DefaulterHandler<K, D> {
    kind: Gvk,
    defaulter: D,
    of: PhantomData<fn() -> K>,
}

impl<K: Object, D: Defaulter<K>> DefaulterHandler<K, D> {
    pub(crate) fn new(kind: Gvk, defaulter: D) -> Self {
        Self {
            kind,
            defaulter,
            of: PhantomData,
        }
    }

    async fn decide(&self, ctx: &AdmissionContext) -> Result<AdmissionResponse, Refusal> {
        let request = ctx.request();
        match request.operation {
            Operation::Create | Operation::Update => {}
            Operation::Delete | Operation::Connect => return Ok(AdmissionResponse::allowed()),
        }
        check_kind(request, &self.kind)?;
        let mut object: K = decoded(request, request.object.as_ref(), "object")?;
        let before = encoded(&object)?;
        self.defaulter.default(&mut object, ctx).await?;
        let after = encoded(&object)?;
        // A request without an object does not get here, because `decoded` refuses it.
        let original = request.object.as_ref().unwrap_or(&Value::Null);
        let changed = with_changes(original, &before, &after);
        Ok(AdmissionResponse::patched_between(original, &changed))
    }
}

impl<K: Object, D: Defaulter<K>> AdmissionHandler for DefaulterHandler<K, D> {
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        self.decide(ctx).await.unwrap_or_else(Into::into)
    }
}

fn encoded(object: &impl Serialize) -> Result<Value, Refusal> {
    let encoded = serde_json::to_value(object);
    encoded.map_err(|error| failed(500, format_args!("the object cannot be encoded: {error}")))
}
