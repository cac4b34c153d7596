//! Driver: lets a read wait for a revision that the store has not reached yet.

use std::time::Duration;

use steersman_registry::Registry;
use tokio::time::{Instant, timeout_at};

use crate::http::context::Context;
use crate::http::requests::call::HttpRefusal;
use crate::http::responses::reply::{HttpOutcome, ReplyBody};

/// The time after which a read of a future revision is refused (`blockTimeout` of kube-apiserver's watch cache).
const LONGEST_WAIT: Duration = Duration::from_secs(3);

type VerbOutcome = (HttpOutcome, Vec<String>);

/// Runs a verb, with the calls of webhooks that it needs. A get, a list or a watch with initial objects at a future
/// revision runs again after each change, until the store reaches the revision or three seconds have passed.
///
/// Dropping the future abandons the verb, which then has changed nothing.
pub(crate) async fn run(
    context: &Context,
    mut verb: impl FnMut(&mut Registry) -> HttpOutcome,
) -> VerbOutcome {
    let first = context.asking(&mut verb).await;
    if !is_ahead(&first) {
        return first;
    }
    let limit = Instant::now() + LONGEST_WAIT;
    let mut changes = context.any_change.subscribe();
    loop {
        // SRV-2: runs the verb once more after the subscription, because a change between the first run and the
        // subscription is not notified.
        let again = context.asking(&mut verb).await;
        // The clock is checked too: while changes come so fast that `changed` is ready at once, `timeout_at` never
        // times out.
        let is_over = Instant::now() >= limit;
        if !is_ahead(&again) || is_over || timeout_at(limit, changes.changed()).await.is_err() {
            return again;
        }
    }
}

/// Returns whether the requested revision lies in the future: the read was refused for that reason, or is a watch that
/// would only send this error.
fn is_ahead((outcome, _): &VerbOutcome) -> bool {
    match outcome {
        Err(HttpRefusal::Status(status)) => status.is_too_large_resource_version(),
        Ok(reply) => matches!(&reply.body, ReplyBody::Watch(watch) if watch.cursor.is_ahead()),
        Err(HttpRefusal::PageNotFound) => false,
    }
}
