//! Handle: `BackgroundTask`, a task of the server that runs at most once at a time.

use std::future::Future;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use crate::http::Context;

pub(super) struct BackgroundTask {
    /// Whether the options or the restored state give the task work. If not, the task is never started.
    is_needed: bool,
    /// The task that was started last; `None` before the first start. A task ends with its runtime, and then `start`
    /// may spawn the task on another runtime.
    last: Mutex<Option<AbortHandle>>,
}

impl BackgroundTask {
    pub(super) fn new(is_needed: bool) -> Self {
        let last = Mutex::default();
        Self { is_needed, last }
    }

    /// Spawns the task on the current runtime. Does nothing if the task runs already or is not needed. Outside a
    /// runtime it also does nothing; the next call inside a runtime spawns the task.
    pub(super) fn start<W: Future<Output = ()> + Send + 'static>(
        &self,
        context: &Arc<Context>,
        stop: &CancellationToken,
        run: impl FnOnce(Weak<Context>, CancellationToken) -> W,
    ) {
        let (true, Ok(runtime)) = (self.is_needed, Handle::try_current()) else {
            return;
        };
        let mut last = self.last.lock();
        if last.as_ref().is_none_or(AbortHandle::is_finished) {
            let work = run(Arc::downgrade(context), stop.clone());
            *last = Some(runtime.spawn(work).abort_handle());
        }
    }
}
