//! Driver: the sources of requests: kinds of the cache, and streams of requests.

use std::panic::AssertUnwindSafe;

use futures::future::FutureExt;
use futures::stream::{BoxStream, StreamExt};
use steersman_cache::{Cache, Error};
use steersman_informer::Subscription;
use steersman_object::{TypedObject, panic_text};
use steersman_workqueue::{AddOptions, Queue};

use crate::context::reason::STREAM;
use crate::request::RequestKey;
use crate::watch::PumpEnd;

/// Subscribes to every informer of a kind. A kind has one informer per cached namespace.
pub(crate) fn subscribe<K: TypedObject>(cache: &Cache) -> Result<Vec<Subscription<K>>, Error> {
    let informers = cache.informers::<K>()?;
    Ok(informers
        .iter()
        .map(|informer| informer.subscribe())
        .collect())
}

/// Adds the requests of a stream to the queue until the stream ends.
pub(crate) async fn feed<R: RequestKey>(
    mut requests: BoxStream<'static, R>,
    queue: Queue<R>,
) -> PumpEnd {
    let all = async {
        while let Some(request) = requests.next().await {
            queue.add_with(request, AddOptions::new().cause(STREAM));
            tokio::task::coop::consume_budget().await;
        }
    };
    match AssertUnwindSafe(all).catch_unwind().await {
        Ok(()) => PumpEnd::Finished,
        Err(payload) => PumpEnd::StreamPanicked {
            message: panic_text(&*payload).to_owned(),
        },
    }
}
