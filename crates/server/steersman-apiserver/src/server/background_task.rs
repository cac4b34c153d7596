//! Handle: a task beside the requests that runs at most once at a time.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::http::Context;

/// Starts a task, one at a time.
pub(super) struct BackgroundTask {
    /// Whether there may ever be something to do.
    is_needed: bool,
    is_running: AtomicBool,
}

/// The exclusive right to run the task. When the task's runtime ends, a task of another runtime may take over.
struct RunGuard(Arc<BackgroundTask>);

impl BackgroundTask {
    pub(super) fn new(is_needed: bool) -> Self {
        Self {
            is_needed,
            is_running: AtomicBool::new(false),
        }
    }

    /// Spawns the task on the current runtime. Does nothing if it runs or is not needed, or outside a
    /// runtime; the next call inside a runtime spawns it.
    pub(super) fn start<W>(
        self: &Arc<Self>,
        context: &Arc<Context>,
        stop: &CancellationToken,
        run: impl FnOnce(Weak<Context>, CancellationToken) -> W,
    ) where
        W: Future<Output = ()> + Send + 'static,
    {
        if !self.is_needed || self.is_running.load(Ordering::Acquire) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if !self.is_running.swap(true, Ordering::AcqRel) {
            let guard = RunGuard(Arc::clone(self));
            let work = run(Arc::downgrade(context), stop.clone());
            runtime.spawn(async move {
                let _guard = guard;
                work.await;
            });
        }
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.0.is_running.store(false, Ordering::Release);
    }
}
