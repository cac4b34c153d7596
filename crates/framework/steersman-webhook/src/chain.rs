//! Handle: runs several handlers behind one path.

use std::sync::Arc;

use serde_json::Value;

use crate::context::AdmissionContext;
use crate::handler::{AdmissionHandler, ErasedHandler};
use crate::response::AdmissionResponse;

/// A chain of handlers that run one after the other. The first refusal is the response.
///
/// Each handler sees the object as the handlers before it have changed it, and the response has all changes,
/// warnings and audit annotations.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("HandlerChain {{ handlers: {} }}", handlers.len())]
#[must_use]
pub struct HandlerChain {
    handlers: Vec<Arc<dyn ErasedHandler>>,
}

impl HandlerChain {
    /// Makes a chain without handlers, which allows every request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a handler.
    pub fn then(mut self, handler: impl AdmissionHandler) -> Self {
        self.handlers.push(Arc::new(handler));
        self
    }
}

impl AdmissionHandler for HandlerChain {
    async fn handle(&self, ctx: &AdmissionContext) -> AdmissionResponse {
        let mut all = AdmissionResponse::allowed();
        let mut request = ctx.request().clone();
        for handler in &self.handlers {
            let part = AdmissionContext::with_deadline(request.clone(), ctx.deadline());
            let mut response = handler.handle(&part).await;
            all.warnings.append(&mut part.take_warnings());
            all.warnings.append(&mut response.warnings);
            all.audit_annotations
                .append(&mut response.audit_annotations);
            if !response.allowed {
                response.warnings = all.warnings;
                response.audit_annotations = all.audit_annotations;
                return response;
            }
            let target = request.object.get_or_insert(Value::Null);
            if let Err(error) = json_patch::patch(target, &response.patch) {
                let text = format_args!("the patch of a handler cannot be applied: {error}");
                return AdmissionResponse::errored(500, text);
            }
            all.patch.0.append(&mut response.patch.0);
        }
        all
    }
}
