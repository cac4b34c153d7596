//! Driver: aborts the process in place of an elector with a blocked thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use crate::abort::abort;
use crate::driver::{Published, at};
use crate::options::ElectionOptions;

/// Watches one elector from a thread of its own (LEASE-4).
///
/// The elector aborts the process itself if work outlives its lease. A hook, a layer of the `ClientConfig` or a log may
/// block its thread, and a log that blocks the elector blocks the work as well.
pub(crate) struct Watchdog {
    published: watch::Receiver<Published>,
    options: ElectionOptions,
    work_ended: Arc<AtomicBool>,
}

/// Whether the owner of an elector does no work any more. It counts as ended when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct OwnersWork {
    ended: Arc<AtomicBool>,
}

impl OwnersWork {
    /// Notes that no work runs, or will run.
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
    pub(crate) fn new(
        published: watch::Receiver<Published>,
        options: ElectionOptions,
        work: &OwnersWork,
    ) -> Self {
        Self {
            published,
            options,
            work_ended: Arc::clone(&work.ended),
        }
    }

    /// Runs until the election has ended, or the process aborts.
    pub(crate) async fn run(mut self) {
        // The elector aborts at the limit, and clears it, unless its thread is blocked.
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

    /// LEASE-4
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
            let watchdog = Watchdog::new(published, options, &work);
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
