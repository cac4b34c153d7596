//! Driver: aborts the process if the thread of the elector is blocked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use steersman_api::clock::at;
use tokio::sync::watch;

use crate::abort::abort;
use crate::machine::Published;
use crate::options::ElectionOptions;

/// Watches one elector from a separate thread (LEASE-4).
///
/// The elector itself aborts the process if work outlives its lease. But a hook, a layer of the `ClientConfig` or the
/// log may block its thread, and a blocked log blocks the work as well.
pub(crate) struct Watchdog {
    pub(crate) published: watch::Receiver<Published>,
    pub(crate) options: ElectionOptions,
    pub(crate) work_ended: Arc<AtomicBool>,
}

/// Tells the watchdog that the owner of an elector has stopped working. Dropping it counts as the end of the work.
#[derive(Debug, Default)]
pub(crate) struct OwnersWork {
    pub(crate) ended: Arc<AtomicBool>,
}

impl OwnersWork {
    /// Records that no work runs or will run.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }
}

impl Drop for OwnersWork {
    fn drop(&mut self) {
        self.end();
    }
}

impl Watchdog {
    /// Runs until the election has ended, or the process aborts.
    pub(crate) async fn run(mut self) {
        // An elector that is not blocked aborts at the limit itself, or clears the limit.
        let slack = self.options.given.timing.stop_limit() / 10;
        loop {
            let limit = self.published.borrow_and_update().work_limit;
            tokio::select! {
                biased;
                changed = self.published.changed() => if changed.is_err() {
                    return;
                },
                () = at(limit.map(|limit| limit + slack)) => {
                    if !self.work_ended.load(Ordering::Acquire) {
                        abort(&self.options);
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::options::LeaderElection;

    /// LEASE-4: work that goes on after a loss aborts the process.
    #[tokio::test(start_paused = true)]
    async fn work_beside_a_blocked_elector_is_aborted_shortly_after_the_limit() {
        let half = Duration::from_millis(12_500);
        for (is_blocked, ends, aborts) in [(true, false, 1), (true, true, 0), (false, false, 0)] {
            let aborted = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&aborted);
            let options = LeaderElection::new("demo").abort_with(move |_| {
                counter.fetch_add(1, Ordering::Relaxed);
            });
            let options = options.validate(Some("default")).unwrap();
            let (publish, published) = watch::channel(Published::default());
            let work = OwnersWork::default();
            let watchdog = Watchdog {
                published,
                options,
                work_ended: Arc::clone(&work.ended),
            };
            let running = tokio::spawn(watchdog.run());
            let leads = Published {
                work_limit: Some((Instant::now() + half).into_std()),
                ..Published::default()
            };
            publish.send_replace(leads);
            sleep(half).await;
            assert_eq!(aborted.load(Ordering::Relaxed), 0);
            if ends {
                work.end();
            }
            if !is_blocked {
                publish.send_replace(Published::default());
            }
            sleep(Duration::from_secs(60)).await;
            assert_eq!(aborted.load(Ordering::Relaxed), aborts);
            drop(publish);
            running.await.unwrap();
        }
    }
}
