//! Driver: the wait of a handler for the first sync of a kind that it reads.

use std::error::Error as StdError;
use std::pin::pin;
use std::time::Duration;

use steersman_cache::Unsynced;
use steersman_cache::internal::CacheInternals as _;
use steersman_object::Object;
use tokio::time::{sleep, timeout};

use crate::error::{Error, TookTooLong};
use crate::handler::target::ControllerTarget;
use crate::request::{ClusterName, RequestKey};
use crate::watch::Sink;
use crate::watch::handling::HandledEvent;

/// The interval of the log lines about a handler that waits for a first sync.
const REMINDERS: Duration = Duration::from_secs(60);

/// The delay before the second and each later wait for one event. The handler has then failed again although the kind
/// had synced, so without a delay it would be called in a tight loop.
const PAUSE: Duration = Duration::from_secs(1);

impl<R: RequestKey> Sink<R> {
    /// Returns the kind to wait for, if a handler failed because that kind has not synced; `None` for other errors.
    ///
    /// No handler waits for a kind that is neither served nor declared: an optional kind may never be served.
    pub(crate) fn awaited_by(&self, error: &Error) -> Option<Unsynced> {
        if error.downcast_ref::<TookTooLong>().is_some() {
            // The limit may have cut off a read, so the kind that the function read is unknown. Before the workers
            // start, the first kind that the controller itself waits for is taken.
            return self.status.waiting_for().into_iter().next();
        }
        let unsynced = unsynced_in(error.source())?;
        let is_declared = || {
            let reports = self.client.cache().informer_reports();
            let mut of_kind = reports.iter().filter(|report| report.kind == unsynced.kind);
            of_kind.any(|report| report.is_declared)
        };
        (!unsynced.is_not_served() || is_declared()).then(|| unsynced.clone())
    }
}

impl<K: Object, P: ControllerTarget> HandledEvent<'_, K, P> {
    /// Waits until a kind has synced, or its informer has ended, and logs the wait (CTRL-43). `attempt` is the number
    /// of earlier waits for the same event. Cancel safe.
    pub(crate) async fn wait_for(&self, unsynced: &Unsynced, attempt: u32) {
        if attempt == 0 {
            self.remind(unsynced);
        } else {
            sleep(PAUSE).await;
        }
        let synced = self.sink.client.cache().first_sync(&unsynced.kind);
        let mut synced = pin!(synced);
        while timeout(REMINDERS, &mut synced).await.is_err() {
            // While a controller waits for the first syncs of its own kinds, its log lines and its status name these
            // kinds, so the handler logs nothing.
            if !self.sink.status.is_waiting() {
                self.remind(unsynced);
            }
        }
    }

    fn remind(&self, unsynced: &Unsynced) {
        tracing::warn!(
            controller = self.sink.status.controller(),
            watch = self.sink.watch,
            kind = %self.route.kind(),
            cluster = self.sink.cluster.as_ref().map(ClusterName::as_str),
            object = %self.event.key(),
            // This field of the log line is the last one and has no quotes, because it may hold an RBAC rule to copy.
            waiting_for = %unsynced,
            "a handler waits for the first sync of a kind that it reads, and the events of its watch with it: none is \
             lost"
        );
    }
}

/// Returns the first [`Unsynced`] in an error and its causes.
fn unsynced_in<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Unsynced> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let of_client = error.downcast_ref::<steersman_client::Error>();
        let of_cache = of_client.and_then(steersman_client::Error::cache);
        let of_cache = of_cache.or_else(|| error.downcast_ref::<steersman_cache::Error>());
        if let Some(of_cache) = of_cache {
            return of_cache.unsynced().first();
        }
        cause = error.source();
    }
    None
}
