//! Driver: a source that calls a function at an interval, and adds the requests that the function returns.

use std::fmt::Display;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use steersman_cache::Cache;
use steersman_client::Client;
use steersman_object::{Jitter, panic_text};
use tokio::time::{sleep, timeout};

use crate::error::Error;
use crate::request::RequestKey;
use crate::watch::{AnySource, PumpEnd, Sink};

/// The shortest interval of a periodic source. Shorter intervals are raised to it.
const SHORTEST: Duration = Duration::from_secs(1);
/// The shortest time limit of a call. With a longer interval, the interval is the limit.
const LIMIT: Duration = Duration::from_secs(30);

/// A source of requests that calls a function at an interval, and adds the requests that the function returns.
pub(crate) struct Periodic<R> {
    every: Duration,
    function: PeriodicFunction<R>,
}

type PeriodicFunction<R> =
    Box<dyn Fn(Client) -> BoxFuture<'static, Result<Vec<R>, Error>> + Send + Sync>;

impl<R: RequestKey> Periodic<R> {
    pub(crate) fn new<F, Fut, I>(every: Duration, function: F) -> Self
    where
        F: Fn(Client) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<I, Error>> + Send + 'static,
        I: IntoIterator<Item: Into<R>>,
    {
        let collect = |requests: I| requests.into_iter().map(Into::into).collect();
        Self {
            every: every.max(SHORTEST),
            function: Box::new(move |client| {
                let requests = function(client);
                requests.map(move |requests| requests.map(collect)).boxed()
            }),
        }
    }
}

impl<R: RequestKey> AnySource<R> for Periodic<R> {
    fn run(self: Box<Self>, _: Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        Box::pin(async move {
            let mut jitter = Jitter::new(RandomState::new().hash_one(self.every));
            let limit = self.every.max(LIMIT);
            loop {
                sleep(jitter.about(self.every)).await;
                // SRC-6: an error or a panic, of the function or of its future, affects this call alone.
                let call = async { (self.function)(sink.client.clone()).await };
                match timeout(limit, AssertUnwindSafe(call).catch_unwind()).await {
                    Ok(Ok(Ok(requests))) => {
                        for request in requests {
                            sink.request(request);
                        }
                    }
                    Ok(Ok(Err(error))) => sink.periodic_failed(&error.chain()),
                    Ok(Err(payload)) => sink.periodic_failed(&panic_text(&*payload)),
                    Err(_) => sink.periodic_failed(&format_args!("it took more than {limit:?}")),
                }
            }
        })
    }
}

impl<R: RequestKey> Sink<R> {
    fn periodic_failed(&self, reason: &impl Display) {
        self.source_metrics.periodic_failed();
        tracing::error!(
            controller = self.status.controller(),
            %reason,
            "the function of a periodic source failed: it is called again after the interval"
        );
    }
}
