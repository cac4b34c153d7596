//! Handle: the state that a publisher shares with its task: the correlator, the metrics and the log.

use std::sync::{Arc, Weak};

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use steersman_api::ClientConfig;
use steersman_api::clock::now;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::correlator::{Correlator, Lost};
use crate::drop_log::DropLog;
use crate::event_limits::EventLimits;
use crate::metrics::EventMetrics;

pub(crate) struct SharedPublisher {
    pub(crate) client_config: ClientConfig,
    pub(crate) wake: Notify,
    pub(crate) state: Mutex<PublisherState>,
    pub(crate) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(crate) metrics: Option<EventMetrics>,
    pub(crate) limits: EventLimits,
}

/// The state that the lock of a publisher protects.
pub(crate) struct PublisherState {
    pub(crate) correlator: Correlator,
    pub(crate) drops: DropLog,
    pub(crate) task: Option<JoinHandle<()>>,
    /// The publishers for other servers, which stop with this publisher.
    pub(crate) others: Vec<Weak<SharedPublisher>>,
}

impl SharedPublisher {
    /// Makes the shared state of a publisher; `seed` and `limits` are passed to its correlator.
    pub(crate) fn new(
        client_config: ClientConfig,
        clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
        metrics: Option<EventMetrics>,
        seed: u64,
        limits: EventLimits,
    ) -> Arc<Self> {
        let state = PublisherState {
            correlator: Correlator::new(seed, limits),
            drops: DropLog::default(),
            task: None,
            others: Vec::new(),
        };
        Arc::new(Self {
            client_config,
            wake: Notify::new(),
            state: Mutex::new(state),
            clock,
            metrics,
            limits,
        })
    }

    /// Returns this publisher and the publishers for other servers that stop with it.
    pub(crate) fn with_others(self: &Arc<Self>) -> Vec<Arc<Self>> {
        let state = self.state.lock();
        let others = state.others.iter().filter_map(Weak::upgrade);
        [Arc::clone(self)].into_iter().chain(others).collect()
    }

    /// Calls a function with the correlator and the current time. The function must not block.
    pub(crate) fn with_correlator<T>(
        &self,
        call: impl FnOnce(&mut Correlator, std::time::Instant) -> T,
    ) -> T {
        let now = now();
        call(&mut self.state.lock().correlator, now)
    }

    /// Counts and logs lost events.
    pub(crate) fn lost(&self, lost: Lost, detail: &str) {
        let Lost {
            event_type,
            reason,
            events,
        } = lost;
        if let Some(metrics) = &self.metrics {
            metrics.dropped(event_type, reason, events);
        }
        let due = self.state.lock().drops.dropped(reason, events, now());
        match due {
            Some(dropped) => tracing::warn!(
                reason = reason.as_str(),
                dropped,
                detail,
                "events were dropped: {}; further ones are counted, and logged once per hour",
                reason.advice()
            ),
            None => tracing::debug!(
                reason = reason.as_str(),
                events,
                detail,
                "events were dropped"
            ),
        }
    }

    pub(crate) fn written(&self, verb: &str, is_ok: bool) {
        if let Some(metrics) = &self.metrics {
            metrics.written(verb, is_ok);
        }
    }
}
