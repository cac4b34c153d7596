//! Handle: what a reconciler is given besides the request.

use std::fmt;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use steersman_client::{Client, RequestId};
use tokio_util::sync::CancellationToken;

use crate::options::Clock;
use crate::request::RequestKey;

/// The surroundings of one reconcile; cheap to clone.
#[derive(Clone)]
pub struct Context {
    shared: Arc<Shared>,
    client: Client,
    cancelled: CancellationToken,
    attempt: u32,
    reconcile_id: u64,
}

struct Shared {
    controller: String,
    clock: Clock,
}

impl Context {
    /// A context of no controller, for calling a reconciler in a test of one's own: first attempt,
    /// reconcile id 0, never cancelled.
    #[must_use]
    pub fn detached(controller: impl Into<String>, client: Client, clock: Clock) -> Self {
        Self {
            shared: Arc::new(Shared {
                controller: controller.into(),
                clock,
            }),
            client,
            cancelled: CancellationToken::new(),
            attempt: 0,
            reconcile_id: 0,
        }
    }

    /// The client: reads from the cache, writes to the server. It works [on behalf of](Client::request) the
    /// request that is reconciled.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The name of the controller.
    #[must_use]
    pub fn controller(&self) -> &str {
        &self.shared.controller
    }

    /// The time of day, from the clock that the controller was started with.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.shared.clock)()
    }

    /// How many times in a row this request has failed before: 0 on a first try.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// A number that no other reconcile of this controller has; it is in the span of its logs.
    #[must_use]
    pub fn reconcile_id(&self) -> u64 {
        self.reconcile_id
    }

    /// Returns once the reconcile should come to its end: the controller shuts down, or the deadline
    /// of this reconcile passed. What goes on beyond the grace is dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Whether [`cancelled`](Self::cancelled) would return at once.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled()
    }

    /// The context of a reconcile of `request` of the same controller.
    pub(crate) fn of_reconcile<R: RequestKey>(
        &self,
        request: &R,
        reconcile_id: u64,
        attempt: u32,
        cancelled: CancellationToken,
    ) -> Self {
        let request = RequestId::new(self.controller(), request.clone());
        Self {
            shared: Arc::clone(&self.shared),
            client: self.client.for_request(request),
            cancelled,
            attempt,
            reconcile_id,
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("controller", &self.controller())
            .field("reconcile_id", &self.reconcile_id)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
