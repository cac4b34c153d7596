//! How clients connect: on a thread that a credential plugin may block.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::task::{Context, Poll};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use parking_lot::Mutex;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_cache::{Cache, CacheOptions};
use steersman_client::Client;
use tower::Service;

use crate::world::key;

/// A service that blocks its thread when a client is made, as a credential plugin does.
struct Plugin<S> {
    inner: S,
    answer: Arc<Mutex<Receiver<()>>>,
    answered: Arc<AtomicBool>,
}

impl<S: Clone> Clone for Plugin<S> {
    fn clone(&self) -> Self {
        // The time limit fails the test if the thread is blocked for good.
        let answer = self.answer.lock();
        if answer.recv_timeout(Duration::from_secs(10)).is_ok() {
            self.answered.store(true, Ordering::Relaxed);
        }
        Self {
            inner: self.inner.clone(),
            answer: Arc::clone(&self.answer),
            answered: Arc::clone(&self.answered),
        }
    }
}

impl<R, S: Service<R>> Service<R> for Plugin<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        self.inner.call(request)
    }
}

#[tokio::test]
async fn a_slow_credential_plugin_blocks_no_other_task() {
    let (tell, answer) = channel();
    let answered = Arc::new(AtomicBool::new(false));
    let service = Plugin {
        inner: ApiServer::new().service(),
        answer: Arc::new(Mutex::new(answer)),
        answered: Arc::clone(&answered),
    };
    let client_config = ClientConfig::in_process(service, "default");
    let client = Client::new(Cache::new(CacheOptions::new()).unwrap(), client_config);
    let live = client.live();
    let a = key("a");
    let other_task = async {
        tokio::task::yield_now().await;
        tell.send(()).unwrap();
    };
    let (read, ()) = tokio::join!(live.get_opt::<ConfigMap>(&a), other_task);
    assert!(read.unwrap().is_none());
    assert!(
        answered.load(Ordering::Relaxed),
        "the other task had no turn"
    );
}
