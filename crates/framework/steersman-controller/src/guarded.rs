//! Machine: guards the queue against panics of a user's rate limiter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use steersman_object::panic_text;
use steersman_workqueue::RateLimiter;
use steersman_workqueue::limiter::Exponential;

use crate::request::RequestKey;

/// A user's rate limiter. If a call of the limiter panics, the default limiter answers instead (CTRL-8).
///
/// The queue calls its rate limiter while it changes its own state, so a panic could leave that state inconsistent.
pub(crate) struct Guarded<R> {
    controller: String,
    inner: Box<dyn RateLimiter<R>>,
    /// The default limiter. It counts only the failures for which the user's limiter panicked.
    instead: Exponential<R>,
}

impl<R: RequestKey> Guarded<R> {
    pub(crate) fn new(controller: &str, inner: Box<dyn RateLimiter<R>>) -> Self {
        Self {
            controller: controller.to_owned(),
            inner,
            instead: Exponential::default(),
        }
    }
}

impl<R: RequestKey> RateLimiter<R> for Guarded<R> {
    fn delay(&mut self, key: &R, now: Instant) -> Duration {
        let inner = &mut self.inner;
        match catch_unwind(AssertUnwindSafe(|| inner.delay(key, now))) {
            Ok(delay) => delay,
            Err(payload) => {
                tracing::error!(
                    controller = self.controller,
                    panic = %panic_text(&*payload),
                    "the rate limiter panicked, so the default one says how long the request waits: \
                     correct the limiter"
                );
                self.instead.delay(key, now)
            }
        }
    }

    fn forget(&mut self, key: &R) {
        self.instead.forget(key);
        let inner = &mut self.inner;
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| inner.forget(key))) {
            tracing::error!(
                controller = self.controller,
                panic = %panic_text(&*payload),
                "the rate limiter panicked while it forgot a request: correct the limiter"
            );
        }
    }

    fn failures(&self, key: &R) -> u32 {
        let failures = catch_unwind(AssertUnwindSafe(|| self.inner.failures(key)));
        failures.unwrap_or_else(|_| self.instead.failures(key))
    }
}
