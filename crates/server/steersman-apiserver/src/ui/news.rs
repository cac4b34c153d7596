//! Driver: server-sent events that tell open pages when to load again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{Stream, unfold};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::http::Context;

/// The pause between two events, so that a busy server is not asked for pages all the time.
const PAUSE: Duration = Duration::from_millis(500);

/// The interval at which the planned faults are compared, because their changes wake no task.
const LOOK: Duration = Duration::from_secs(1);

/// The number of looks without news after which a comment shows that the connection lives.
const QUIET_LOOKS: u32 = 15;

/// What an event says: whether the page of a view has changed since the event before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerState {
    /// The newest revision.
    revision: u64,
    /// A number that grows with each change of the log of requests.
    requests: u64,
    /// The planned faults: number and hits.
    faults: Vec<(u64, u64)>,
}

struct NewsStream {
    context: Arc<Context>,
    changes: watch::Receiver<u64>,
    requests: watch::Receiver<u64>,
    /// The state that the last event told; `None` before the first event.
    told: Option<ServerState>,
}

/// Returns the events of one connection: one at once, then one after each change, at most two in a second.
pub(crate) fn stream(context: Arc<Context>) -> impl Stream<Item = Bytes> {
    let news = NewsStream {
        changes: context.any_change.subscribe(),
        requests: context.log.changes(),
        told: None,
        context,
    };
    unfold(news, |mut news| async {
        let event = news.next().await;
        Some((event, news))
    })
}

impl NewsStream {
    async fn next(&mut self) -> Bytes {
        if self.told.is_some() {
            sleep(PAUSE).await;
        }
        for _ in 0..QUIET_LOOKS {
            let state = self.state();
            if self.told.as_ref() != Some(&state) {
                let event = event(&state);
                self.told = Some(state);
                return event;
            }
            // Neither sender is dropped while the context lives, so an error cannot happen.
            let changed = async {
                tokio::select! {
                    _ = self.changes.changed() => {}
                    _ = self.requests.changed() => {}
                }
            };
            // A timeout is a look at the faults.
            let _ = timeout(LOOK, changed).await;
        }
        Bytes::from_static(b": no news\n\n")
    }

    fn state(&self) -> ServerState {
        let faults = self.context.faults.planned().into_iter();
        ServerState {
            revision: self.context.with_registry(|registry| registry.revision()),
            requests: self.context.log.version(),
            faults: faults.map(|fault| (fault.id, fault.hits)).collect(),
        }
    }
}

fn event(state: &ServerState) -> Bytes {
    // Numbers always serialise.
    let data = serde_json::to_string(state).unwrap_or_default();
    Bytes::from(format!("retry: 1000\ndata: {data}\n\n"))
}
