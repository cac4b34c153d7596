//! Driver: the connection of one process of a world with the server, which can be paused and ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::Body;
use parking_lot::Mutex;
use steersman_testenv::apiserver::{ApiService, BodyError, ResponseBody};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tower::{Service, ServiceExt as _};

/// The connection of one process with the server.
///
/// A request that was sent is carried out even if its sender no longer waits for the answer, as over a network: a write
/// of a leader arrives although the leader has lost its Lease meanwhile.
#[derive(Debug)]
pub(super) struct ProcessConnection {
    is_paused: watch::Sender<bool>,
    /// The requests that were sent and not answered.
    sent: Mutex<Vec<AbortHandle>>,
}

/// The client's side of a [`ProcessConnection`].
#[derive(Clone)]
pub(super) struct ProcessService {
    server: ApiService,
    connection: Arc<ProcessConnection>,
}

// ===== impl ProcessConnection =====

impl ProcessConnection {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            is_paused: watch::Sender::new(false),
            sent: Mutex::default(),
        })
    }

    /// Returns the service through which the process sends its requests.
    pub(super) fn service(self: &Arc<Self>, server: ApiService) -> ProcessService {
        ProcessService {
            server,
            connection: Arc::clone(self),
        }
    }

    /// Holds back later requests, and the answers of earlier ones, until the connection is resumed. Watches that are open go
    /// on.
    pub(super) fn pause(&self, is_paused: bool) {
        self.is_paused.send_replace(is_paused);
    }

    /// Ends all requests, because the process was killed.
    pub(super) fn end(&self) {
        self.sent.lock().iter().for_each(AbortHandle::abort);
    }

    /// Carries out a request beside its sender.
    fn send<T: Send + 'static>(
        &self,
        request: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let task = tokio::spawn(request);
        let mut sent = self.sent.lock();
        sent.retain(|one| !one.is_finished());
        sent.push(task.abort_handle());
        task
    }

    async fn wait_while_paused(&self) {
        // The sender lives as long as `self`, so waiting cannot fail.
        let _ = self
            .is_paused
            .subscribe()
            .wait_for(|is_paused| !is_paused)
            .await;
    }
}

// ===== impl ProcessService =====

impl<B: Body<Data: Send> + Send + 'static> Service<Request<B>> for ProcessService {
    type Response = Response<ResponseBody>;
    type Error = BodyError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BodyError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let Self { server, connection } = self.clone();
        Box::pin(async move {
            connection.wait_while_paused().await;
            match connection.send(server.oneshot(request)).await {
                Ok(answer) => {
                    connection.wait_while_paused().await;
                    answer
                }
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                // The process was killed, so nothing waits for the answer.
                Err(_) => std::future::pending().await,
            }
        })
    }
}
