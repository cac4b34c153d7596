//! Handle: the context of one admission request.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::request::AdmissionRequest;

/// The request that a webhook decides, its deadline, and the warnings for its user. Cheap to clone.
#[derive(Clone, derive_more::Debug)]
#[debug("AdmissionContext {{ uid: {:?}, deadline: {:?}, .. }}", self.request().uid, inner.deadline)]
#[must_use]
pub struct AdmissionContext {
    inner: Arc<ContextState>,
}

struct ContextState {
    request: AdmissionRequest,
    deadline: Option<Instant>,
    warnings: Mutex<Vec<String>>,
}

impl AdmissionContext {
    /// Makes the context of a request, for a handler that is called without a server.
    pub fn new(request: AdmissionRequest) -> Self {
        Self::with_deadline(request, None)
    }

    pub(crate) fn with_deadline(request: AdmissionRequest, deadline: Option<Instant>) -> Self {
        Self {
            inner: Arc::new(ContextState {
                request,
                deadline,
                warnings: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Returns the request.
    pub fn request(&self) -> &AdmissionRequest {
        &self.inner.request
    }

    /// Returns the time until the API server stops waiting; `None` if the request has no timeout. Later, the handler is
    /// dropped at its next await, and the response is a 504.
    pub fn time_left(&self) -> Option<Duration> {
        let deadline = self.inner.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    /// Adds a warning to the response, whether the request is allowed or not. kubectl shows it.
    pub fn warn(&self, warning: impl Into<String>) {
        self.inner.warnings.lock().push(warning.into());
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.inner.deadline
    }

    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.warnings.lock())
    }
}
