//! Handle: an interceptor that each request on objects passes before it is carried out and before it is answered.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use steersman_apimachinery::status::Status;

use super::plan::Decision;
use super::record::RequestRecord;

/// Decides about each request on objects, before it is carried out and before it is answered. Both decisions may wait, so
/// that a test can act at an exact point between two requests.
#[async_trait]
pub trait RequestInterceptor: Send + Sync {
    /// Decides about a request that arrived.
    ///
    /// # Cancel safety
    /// The future is dropped if the client disconnects; the request is then not carried out.
    async fn arrive(&self, record: &RequestRecord) -> ArrivalDecision;

    /// Decides about a request that was carried out. `record` has the code of the answer, and the name of a created
    /// object.
    ///
    /// # Cancel safety
    /// The future is dropped if the client disconnects.
    async fn depart(&self, record: &RequestRecord) -> DepartureDecision;
}

/// What happens with a request that arrived at a [`RequestInterceptor`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ArrivalDecision {
    /// The request is carried out.
    Pass,
    /// The request is carried out; a list reads the state of this revision, if the request accepts a past state.
    PassAsOf(u64),
    /// The request is not carried out, and answered with this failure.
    Refuse(Box<Status>),
    /// The request is not carried out, and its connection ends without an answer.
    Cut,
}

/// What happens with a request that was carried out, at a [`RequestInterceptor`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum DepartureDecision {
    /// The request is answered.
    Answer,
    /// The request is answered with this failure, as if it had failed.
    Replace(Box<Status>),
    /// The connection ends without an answer.
    Cut,
}

/// The interceptor of a server, if it has one.
#[derive(Default)]
pub(crate) struct InterceptorSlot(Mutex<Option<Arc<dyn RequestInterceptor>>>);

impl InterceptorSlot {
    pub(crate) fn set(&self, interceptor: Option<Arc<dyn RequestInterceptor>>) {
        *self.0.lock() = interceptor;
    }

    /// Returns the interceptor for a request: only requests on objects pass it.
    pub(crate) fn of(&self, record: &RequestRecord) -> Option<Arc<dyn RequestInterceptor>> {
        record.verb?;
        self.0.lock().clone()
    }
}

impl Decision {
    /// Adds what an interceptor decided about a request that arrived. Returns the revision that a list reads, if that is not the
    /// newest.
    pub(crate) fn add_interceptor(&mut self, arrival: ArrivalDecision) -> Option<u64> {
        match arrival {
            ArrivalDecision::Pass => None,
            ArrivalDecision::PassAsOf(revision) => Some(revision),
            ArrivalDecision::Refuse(status) => {
                (self.answer, self.commit) = (Some(status), false);
                None
            }
            ArrivalDecision::Cut => {
                (self.cut, self.commit) = (true, false);
                None
            }
        }
    }
}
