//! Driver: prints what happens to websites and their children.

use std::fmt::Write as _;

use steersman::Manager;
use steersman::cache::Cache;
use steersman::cli::Console;
use steersman::informer::{Delivery, Event, Origin};
use steersman::k8s_openapi::api::apps::v1::Deployment;
use steersman::k8s_openapi::api::core::v1::{Pod, Service};
use steersman::object::{Object as _, TypedObject};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::website::Website;

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
    /// the controllers.
    ///
    /// # Errors
    ///
    /// An error if the cache excludes one of the kinds.
    pub fn listen(manager: &Manager) -> Result<Self, steersman::cache::Error> {
        let (sender, lines) = mpsc::channel(64);
        let cache = manager.cache();
        narrate::<Website, _>(cache, &sender, website)?;
        narrate::<Deployment, _>(cache, &sender, child("Deployment"))?;
        narrate::<Service, _>(cache, &sender, child("Service"))?;
        narrate::<Pod, _>(cache, &sender, pod)?;
        Ok(Self { lines })
    }

    /// Prints each line with the seconds since this call, until the manager has stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a dropped future has printed whole lines.
    pub async fn narrate(mut self, console: Console) {
        let start = Instant::now();
        while let Some(line) = self.next().await {
            let time = start.elapsed().as_secs_f64();
            console.say(format_args!("{time:7.2}s  {line}"));
        }
    }

    /// Returns the next line, and `None` once the manager has stopped.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no line is lost.
    pub async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

/// Sends the lines about a kind, from each of its informers: there is one per namespace of --namespace.
fn narrate<K: TypedObject, F>(
    cache: &Cache,
    sender: &mpsc::Sender<String>,
    line_of: F,
) -> Result<(), steersman::cache::Error>
where
    F: Fn(&Event<K>) -> Option<String> + Clone + Send + 'static,
{
    for informer in cache.informers::<K>()? {
        let mut events = informer.subscribe();
        let (sender, line_of) = (sender.clone(), line_of.clone());
        tokio::spawn(async move {
            while let Some(delivery) = events.next().await {
                if let Delivery::Event(event) = delivery
                    && let Some(line) = line_of(&event)
                    && sender.send(line).await.is_err()
                {
                    return;
                }
            }
        });
    }
    Ok(())
}

/// Returns the condition of a site, after each change of its reason or message.
fn website(event: &Event<Website>) -> Option<String> {
    let site = event.entry().object();
    let mut line = format!("Website {}", site.key());
    let Some(new) = event.current() else {
        return Some(line + " is gone");
    };
    if new.is_deleting() {
        let before = event.old().is_some_and(|old| old.is_deleting());
        return (!before).then(|| line + " is being deleted");
    }
    let before = event.old().map(|old| says(&old.object()));
    let says = says(&site);
    if before.as_ref() == Some(&says) {
        return None;
    }
    // Writing to a String cannot fail.
    let _ = write!(line, " {says}");
    Some(line)
}

fn says(site: &Website) -> String {
    match site.ready_condition() {
        None => format!(
            "wants {} of {}, serving ConfigMap {}",
            site.spec.replicas, site.spec.image, site.spec.pages
        ),
        Some(condition) => format!("is {}: {}", condition.reason, condition.message),
    }
}

/// Returns a line when a child is created or deleted; its changes show in the site's condition.
fn child<K: TypedObject>(
    kind: &'static str,
) -> impl Fn(&Event<K>) -> Option<String> + Clone + Send {
    move |event| {
        let key = event.entry().key();
        match (event.old(), event.current()) {
            // The child existed before the narrator subscribed.
            (None, Some(_)) if event.origin() == Origin::Initial => None,
            (None, Some(_)) => Some(format!("{kind} {key} was created")),
            (_, None) => Some(format!("{kind} {key} is gone")),
            (Some(_), Some(_)) => None,
        }
    }
}

fn pod(event: &Event<Pod>) -> Option<String> {
    let phase = |pod: &Pod| pod.status.as_ref().and_then(|s| s.phase.clone());
    let now = event.current().map(|new| phase(&new.object()));
    let before = event.old().map(|old| phase(&old.object()));
    match (&before, &now) {
        (Some(before), Some(now)) if before != now => {
            let now = now.as_deref().unwrap_or("Unknown");
            Some(format!("Pod {} is {now}", event.entry().key()))
        }
        _ => child("Pod")(event),
    }
}
