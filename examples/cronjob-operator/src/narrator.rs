//! Driver: prints what happens to CronJobs and their Jobs.

use std::sync::Arc;

use jiff::Timestamp;
use steersman::Manager;
use steersman::cache::Cache;
use steersman::cli::Console;
use steersman::informer::{Delivery, Event, Origin};
use steersman::k8s_openapi::api::batch::v1::Job;
use steersman::object::{Object as _, TypedObject};
use tokio::sync::mpsc;

use crate::cron_job::CronJob;
use crate::job::{self, JobState};

/// The wall clock of the program.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Lines about events, in the order of the events.
///
/// The number of buffered lines is bounded. If the reader falls behind, the tasks that write lines
/// wait, and their subscriptions coalesce the events in the meantime.
#[derive(Debug)]
pub struct Narrator {
    lines: mpsc::Receiver<String>,
}

impl Narrator {
    /// Subscribes to the manager's cache. It causes no request, because it shares the informers of
    /// the controller.
    ///
    /// # Errors
    ///
    /// An error if the cache excludes one of the kinds.
    pub fn listen(manager: &Manager, clock: &Clock) -> Result<Self, steersman::cache::Error> {
        let (sender, lines) = mpsc::channel(64);
        narrate(manager.cache(), &sender, clock, about_cron_job)?;
        narrate(manager.cache(), &sender, clock, about_job)?;
        Ok(Self { lines })
    }

    /// Prints each line, until the manager has stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future has printed whole lines.
    pub async fn narrate(mut self, console: Console) {
        while let Some(line) = self.lines.recv().await {
            console.say(line);
        }
    }
}

/// Sends the lines about a kind, each with the time of day of its event.
fn narrate<K: TypedObject>(
    cache: &Cache,
    sender: &mpsc::Sender<String>,
    clock: &Clock,
    line_of: fn(&Event<K>) -> Option<String>,
) -> Result<(), steersman::cache::Error> {
    for informer in cache.informers::<K>()? {
        let mut events = informer.subscribe();
        let (sender, clock) = (sender.clone(), Arc::clone(clock));
        tokio::spawn(async move {
            while let Some(delivery) = events.next().await {
                if let Delivery::Event(event) = delivery
                    && let Some(line) = line_of(&event)
                {
                    let time = clock().strftime("%H:%M:%S");
                    if sender.send(format!("{time}  {line}")).await.is_err() {
                        return;
                    }
                }
            }
        });
    }
    Ok(())
}

/// Returns the condition of a `CronJob`, after each change of its reason or message.
fn about_cron_job(event: &Event<CronJob>) -> Option<String> {
    let cron = event.entry().object();
    let key = cron.key();
    if event.current().is_none() {
        return Some(format!("CronJob {key} is gone"));
    }
    let says = says(&cron);
    let before = event.old().map(|old| self::says(&old.object()));
    (before.as_ref() != Some(&says)).then(|| format!("CronJob {key} {says}"))
}

fn says(cron: &CronJob) -> String {
    match cron.ready_condition() {
        None => format!("has the schedule {}", cron.spec.schedule),
        Some(condition) => format!("is {}: {}", condition.reason, condition.message),
    }
}

fn about_job(event: &Event<Job>) -> Option<String> {
    let key = event.entry().key();
    let state = |job: &Job| match job::state(job) {
        JobState::Active => None,
        JobState::Complete => Some("is complete"),
        JobState::Failed => Some("failed"),
    };
    match (event.old(), event.current()) {
        // The Job existed before the narrator subscribed.
        (None, Some(_)) if event.origin() == Origin::Initial => None,
        (None, Some(_)) => Some(format!("Job {key} was created")),
        (Some(old), Some(new)) => {
            let now = state(&new.object())?;
            let is_news = state(&old.object()).is_none();
            is_news.then(|| format!("Job {key} {now}"))
        }
        (_, None) => Some(format!("Job {key} is gone")),
    }
}
