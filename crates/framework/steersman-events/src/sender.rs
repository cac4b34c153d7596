//! Driver: the task that sends the events of one publisher.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use k8s_openapi::api::events::v1::Event;
use steersman_api::clock::at;
use steersman_api::{Api, Error};
use steersman_object::report;
use tokio::sync::OnceCell;

use crate::correlator::WriteAnswer;
use crate::series::{EventWrite, WriteVerb};
use crate::shared::SharedPublisher;
use crate::write_request::{meaning, request};

/// The maximum number of concurrent requests.
const CONCURRENT: usize = 4;

/// How long the server may take until its response begins.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Sends events until the correlator is closed and drained.
pub(crate) async fn send_events(shared: Arc<SharedPublisher>) {
    // The client is created at the first write, inside the runtime of this task.
    let api = OnceCell::new();
    let mut in_flight = FuturesUnordered::new();
    loop {
        let (deadline, is_drained) = shared.with_correlator(|correlator, now| {
            correlator.handle_tick(now);
            while in_flight.len() < CONCURRENT
                && let Some(write) = correlator.next_write(now)
            {
                in_flight.push(send(&shared, &api, write));
            }
            (correlator.deadline(), correlator.is_drained())
        });
        if is_drained {
            return;
        }
        tokio::select! {
            biased;
            Some((write, sent)) = in_flight.next() => answered(&shared, &write, sent),
            () = shared.wake.notified() => {}
            () = at(deadline) => {}
        }
    }
}

async fn send(
    shared: &SharedPublisher,
    api: &OnceCell<Api<Event>>,
    write: EventWrite,
) -> (EventWrite, Result<(), Error>) {
    let sent = async {
        let connect = || async {
            let client = shared.client_config.connect().await?;
            Ok::<_, Error>(Api::typed(client).request_timeout(REQUEST_TIMEOUT))
        };
        let api = api.get_or_try_init(connect).await?;
        request(api, &write)?.send().await.map(drop)
    };
    let sent = sent.await;
    (write, sent)
}

/// Passes the result of a write to the correlator.
fn answered(shared: &SharedPublisher, write: &EventWrite, sent: Result<(), Error>) {
    let answer = match &sent {
        Ok(()) => WriteAnswer::Written,
        Err(error) => meaning(error, write.verb),
    };
    let verb = match write.verb {
        WriteVerb::Create => "create",
        WriteVerb::Patch => "patch",
    };
    shared.written(verb, sent.is_ok());
    let series = write.series;
    let lost =
        shared.with_correlator(|correlator, now| correlator.handle_answer(series, answer, now));
    if let Err(error) = sent {
        let error = report(&error).to_string();
        match lost {
            Some(lost) => shared.lost(lost, &error),
            None => tracing::debug!(error, "an Event was not written, and is tried again"),
        }
    }
}
