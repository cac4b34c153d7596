//! Driver: the wait of a controller for the first syncs of its kinds.

use std::collections::VecDeque;
use std::future::pending;
use std::time::Duration;

use futures::channel::oneshot;
use steersman_cache::Unsynced;
use steersman_object::Kind;

use crate::error::ControllerError;
use crate::status::ControllerStatus;

/// For each subscription, in the order of the watches: a receiver that resolves when the requests of its initial
/// objects are in the queue.
pub(crate) type InitialSets = VecDeque<oneshot::Receiver<()>>;

/// Waits until all initial objects of the first subscription in `initial` are in the queue, and removes its receiver.
/// Returns at once if `initial` is empty. Cancel safe.
pub(crate) async fn next_synced(initial: &mut InitialSets) {
    if let Some(synced) = initial.front_mut() {
        // The watch has ended before its initial objects were in the queue. The end of its task ends the controller, so
        // this future never resolves.
        if synced.await.is_err() {
            pending::<()>().await;
        }
        initial.pop_front();
    }
}

/// Logs which kinds a controller waits for, and why they have not synced (CTRL-7).
pub(crate) fn remind(status: &ControllerStatus, kind: &Kind) {
    tracing::warn!(
        controller = status.controller(),
        // This field of the log line is the last one and has no quotes, because it may hold an RBAC rule to copy.
        waiting_for = %describe(&status.waiting_for(), kind),
        "the controller waits for the first sync of what it watches, and starts by itself after that; \
         other controllers go on"
    );
}

pub(crate) fn sync_error(
    status: &ControllerStatus,
    kind: Kind,
    timeout: Duration,
) -> ControllerError {
    ControllerError::Sync {
        controller: status.controller().to_owned(),
        reason: describe(&status.waiting_for(), &kind),
        kind,
        timeout,
    }
}

/// Describes why the kinds in `waiting_for` have not synced. With an empty `waiting_for`, the cache has all objects,
/// but those of `first` are not all in the queue yet.
fn describe(waiting_for: &[Unsynced], first: &Kind) -> String {
    if waiting_for.is_empty() {
        return format!(
            "the cache has {first}, and its objects have not all reached the controller"
        );
    }
    let known: Vec<String> = waiting_for.iter().map(ToString::to_string).collect();
    known.join("; ")
}
