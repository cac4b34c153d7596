//! Handle: the queue of the events of one program, and the task that sends them.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::Timestamp;
use steersman_api::ClientConfig;
use steersman_api::clock::now;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::correlator::{Lost, Recorded};
use crate::drop_reason::DropReason;
use crate::event_limits::EventLimits;
use crate::metrics::EventMetrics;
use crate::new_event::NewEvent;
use crate::sender::send_events;
use crate::series::EventSubject;
use crate::shared::{PublisherState, SharedPublisher};

/// Sends the events of all recorders of one program to one API server. Cheap to clone.
///
/// A manager has one publisher. A program without a manager, or with a second cluster, makes its own. Its task starts
/// with the first event; it ends with [`stop`](Self::stop), or when the last clone and the last recorder are gone,
/// after it has sent what waits.
#[derive(Clone, derive_more::Debug)]
#[debug("EventPublisher {{ endpoint: {:?}, .. }}", guard.shared.client_config.endpoint())]
#[must_use]
pub struct EventPublisher {
    guard: Arc<PublisherGuard>,
}

/// Stops the task of a publisher when it is dropped.
struct PublisherGuard {
    shared: Arc<SharedPublisher>,
}

impl EventPublisher {
    /// Makes a publisher for the server of `client_config`, without I/O.
    pub fn new(client_config: ClientConfig) -> Self {
        Self::with(client_config, Timestamp::now, None)
    }

    /// Makes a publisher with a wall clock, which provides the times of events, and with metrics. A manager passes its
    /// own.
    pub fn with(
        client_config: ClientConfig,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        metrics: Option<EventMetrics>,
    ) -> Self {
        Self::with_limits(client_config, clock, metrics, EventLimits::new())
    }

    /// Makes a publisher like [`with`](Self::with), but with these limits.
    pub fn with_limits(
        client_config: ClientConfig,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        metrics: Option<EventMetrics>,
        limits: EventLimits,
    ) -> Self {
        let seed = RandomState::new().hash_one(0);
        let shared = SharedPublisher::new(client_config, Arc::new(clock), metrics, seed, limits);
        Self {
            guard: Arc::new(PublisherGuard { shared }),
        }
    }

    /// Makes a publisher for another server with the clock, the metrics and the limits of this publisher. It stops no
    /// later than this publisher.
    pub fn for_client_config(&self, client_config: ClientConfig) -> Self {
        let own = &self.guard.shared;
        let seed = RandomState::new().hash_one(0);
        let shared = SharedPublisher::new(
            client_config,
            Arc::clone(&own.clock),
            own.metrics.clone(),
            seed,
            own.limits,
        );
        let has_stopped = {
            let mut state = own.state.lock();
            state.others.retain(|other| other.strong_count() > 0);
            state.others.push(Arc::downgrade(&shared));
            state.correlator.closing
        };
        if has_stopped {
            abort(&shared);
        }
        Self {
            guard: Arc::new(PublisherGuard { shared }),
        }
    }

    /// Sends the queued events and the final counts of all series, for at most `bound`. Drops and counts the remaining
    /// events and later ones (EVENT-8).
    ///
    /// # Cancel safety
    ///
    /// After a drop of the future, the task continues to send, and tries each write once.
    pub async fn stop(&self, bound: Duration) {
        let all = self.guard.shared.with_others();
        join_all(all.iter().map(|shared| stop(shared, bound))).await;
    }

    /// Ends the task at once. Queued and later events are dropped and counted.
    pub fn abort(&self) {
        self.guard.shared.with_others().iter().for_each(abort);
    }

    /// Records an event without waiting (EVENT-1).
    pub(crate) fn record(&self, subject: &EventSubject, event: NewEvent) {
        let shared = &self.guard.shared;
        let event_type = event.event_type;
        if let Some(metrics) = &shared.metrics {
            metrics.recorded(event_type);
        }
        let time = (shared.clock)();
        let recorded = {
            let mut state = shared.state.lock();
            let recorded = state.correlator.handle_record(subject, event, now(), time);
            if recorded != Recorded::Dropped(DropReason::Stopped) {
                start_task(shared, &mut state);
            }
            recorded
        };
        match recorded {
            Recorded::Queued => shared.wake.notify_one(),
            Recorded::Counted => {}
            Recorded::Dropped(reason) => {
                let lost = Lost {
                    event_type,
                    reason,
                    events: 1,
                };
                shared.lost(lost, &subject.regarding.to_string());
            }
        }
    }
}

impl Drop for PublisherGuard {
    fn drop(&mut self) {
        let shared = &self.shared;
        let lost = {
            let mut state = shared.state.lock();
            state.correlator.handle_close(now());
            if state.correlator.has_writes() {
                start_task(shared, &mut state);
            }
            // The events cannot be sent without a runtime.
            match state.task {
                Some(_) => Vec::new(),
                None => state.correlator.abandon(),
            }
        };
        for lost in lost {
            shared.lost(lost, "");
        }
        shared.wake.notify_one();
    }
}

/// Sends queued events for at most `bound`, and counts the remaining events as dropped.
async fn stop(shared: &Arc<SharedPublisher>, bound: Duration) {
    let task = {
        let mut state = shared.state.lock();
        state.correlator.handle_close(now());
        if state.correlator.has_writes() {
            start_task(shared, &mut state);
        }
        state.task.take()
    };
    shared.wake.notify_one();
    if let Some(mut task) = task
        && timeout(bound, &mut task).await.is_err()
    {
        task.abort();
    }
    abort(shared);
}

/// Ends the task at once, and counts the queued events as dropped.
fn abort(shared: &Arc<SharedPublisher>) {
    let lost = {
        let mut state = shared.state.lock();
        if let Some(task) = state.task.take() {
            task.abort();
        }
        state.correlator.abandon()
    };
    for lost in lost {
        shared.lost(lost, "");
    }
}

/// Starts the task unless it runs. Without a runtime, the events wait until the next event is recorded.
fn start_task(shared: &Arc<SharedPublisher>, state: &mut PublisherState) {
    if state.task.as_ref().is_some_and(|task| !task.is_finished()) {
        return;
    }
    if let Ok(runtime) = Handle::try_current() {
        // The earlier task was dropped with its runtime, or panicked.
        state.correlator.requeue_in_flight();
        state.task = Some(runtime.spawn(send_events(Arc::clone(shared))));
    }
}
