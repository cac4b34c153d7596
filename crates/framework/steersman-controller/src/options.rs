//! Words: the options of a controller's queue and workers.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_workqueue::{QueueOptions, RateLimiter, limiter};

use crate::guarded::Guarded;
use crate::request::RequestKey;

mod defaults;

pub(crate) use self::defaults::ResolvedSettings;
pub use self::defaults::{ControllerDefaults, ControllerSettings};

/// The function that returns the time of day to a controller; tests pass a clock of their own.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The options of the queue and of the workers, as a builder collects them.
pub(crate) struct Options<R> {
    pub(crate) settings: ControllerSettings,
    pub(crate) rate_limiter: Option<Box<dyn RateLimiter<R>>>,
    /// The rate limit of each request: at most this number of reconciles in this span; `None` is no limit.
    pub(crate) at_most: Option<(u32, Duration)>,
}

impl<R: RequestKey> Options<R> {
    pub(crate) fn queue(&mut self, name: &str, settings: &ResolvedSettings) -> QueueOptions<R> {
        let mut options = QueueOptions::new(name);
        if let Some(turns) = settings.lower_priority_share {
            options = options.lower_priority_share(turns);
        }
        if let Some((runs, per)) = self.at_most {
            options = options.at_most(runs, per);
        }
        let in_code = self.rate_limiter.take();
        match (
            in_code.filter(|_| !settings.backoff_is_named),
            settings.backoff,
        ) {
            (Some(in_code), _) => options.rate_limiter(Guarded::new(name, in_code)),
            (None, Some((first, longest))) => {
                options.rate_limiter(limiter::Exponential::new(first, longest))
            }
            (None, None) => options,
        }
    }
}
