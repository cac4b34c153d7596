//! Driver: prints what happens to objects.

use std::fmt::Display;

use steersman::cache::{self, Cache};
use steersman::cli::Console;
use steersman::informer::{Delivery, Event, Origin};
use steersman::object::TypedObject;
use steersman::status_conditions::{HasConditions, READY, find};
use steersman::{Kind, Manager};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Lines about the objects of a manager's cache, in the order of their events.
///
/// The subscriptions cause no request: they share the informers of the controllers. The number of buffered lines is
/// bounded: while standard output is blocked, the tasks that write lines wait, and their subscriptions coalesce events.
#[derive(Debug)]
pub struct Story {
    cache: Cache,
    lines: mpsc::Sender<String>,
    printer: JoinHandle<()>,
}

impl Story {
    /// Prints each line behind a time, until the manager has stopped.
    pub fn new<T: Display>(
        manager: &Manager,
        console: Console,
        time: impl Fn() -> T + Send + 'static,
    ) -> Self {
        let (lines, mut written) = mpsc::channel::<String>(64);
        let printer = tokio::spawn(async move {
            while let Some(line) = written.recv().await {
                console.say(format_args!("{}  {line}", time()));
            }
        });
        Self {
            cache: manager.cache().clone(),
            lines,
            printer,
        }
    }

    /// Tells the condition `Ready` of each object of a kind at the start, and each change of it. `wish` is the text for
    /// an object without the condition.
    ///
    /// # Errors
    ///
    /// An error if the cache excludes the kind.
    pub fn objects<K: TypedObject + HasConditions>(
        self,
        wish: fn(&K) -> String,
    ) -> Result<Self, cache::Error> {
        let state = move |object: &K| {
            if object.is_being_deleted() {
                return "is being deleted".to_owned();
            }
            match find(object.conditions(), READY) {
                Some(ready) => format!("is {}: {}", ready.reason, ready.message),
                None => wish(object),
            }
        };
        self.tell(
            move |object| Some(state(object)),
            move |_, object| Some(state(object)),
        )
    }

    /// Tells of each child of a kind that it was created, each state of it afterwards, if it has a state that is told,
    /// and its end. Children that exist at the start are no news.
    ///
    /// # Errors
    ///
    /// An error if the cache excludes the kind.
    pub fn children<K: TypedObject>(
        self,
        state: fn(&K) -> Option<String>,
    ) -> Result<Self, cache::Error> {
        self.tell(state, |origin, _| {
            (origin != Origin::Initial).then(|| "was created".to_owned())
        })
    }

    /// Waits until the manager has stopped and all lines are printed.
    ///
    /// # Errors
    ///
    /// An error if a line could not be made.
    pub async fn end(self) -> Result<(), tokio::task::JoinError> {
        drop(self.lines);
        self.printer.await
    }

    /// Sends the lines about a kind, from each of its informers: there is one per namespace of --namespace.
    fn tell<K: TypedObject>(
        self,
        state: impl Fn(&K) -> Option<String> + Copy + Send + 'static,
        first: impl Fn(Origin, &K) -> Option<String> + Copy + Send + 'static,
    ) -> Result<Self, cache::Error> {
        let news = move |event: &Event<K>| match (event.old(), event.current()) {
            (_, None) => Some("is gone".to_owned()),
            (None, Some(new)) => first(event.origin(), &new.object()),
            (Some(old), Some(new)) => {
                let before = state(&old.object());
                state(&new.object()).filter(|now| before.as_ref() != Some(now))
            }
        };
        for informer in self.cache.informers::<K>()? {
            let mut events = informer.subscribe();
            let lines = self.lines.clone();
            tokio::spawn(async move {
                while let Some(delivery) = events.next().await {
                    if let Delivery::Event(event) = delivery
                        && let Some(news) = news(&event)
                    {
                        let kind = Kind::of::<K>();
                        let line = format!("{} {} {news}", kind.gvk().kind(), event.key());
                        if lines.send(line).await.is_err() {
                            return;
                        }
                    }
                }
            });
        }
        Ok(self)
    }
}

/// Returns the time since this call in seconds, for each line.
pub fn seconds() -> impl Fn() -> String {
    let start = Instant::now();
    move || format!("{:7.2}s", start.elapsed().as_secs_f64())
}
