//! Driver: calls the function of a poll, and requests the objects with another state than before.

use std::any::Any;
use std::future::pending;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use futures::stream::{BoxStream, FuturesUnordered, StreamExt, select_all, unfold};
use steersman_cache::Cache;
use steersman_cache::internal::CacheInternals as _;
use steersman_informer::{Delivery, Event};
use steersman_object::{Kind, ObjectKey, TypedObject, panic_text, report};
use steersman_workqueue::AddOptions;
use tokio::time::{sleep_until, timeout};

use super::schedule::{Call, CallEnd, PollSchedule};
use super::{Poll, PollFunction, PollResults};
use crate::context::reason::STREAM;
use crate::error::Error;
use crate::metrics::sources::PollOutcome;
use crate::request::RequestKey;
use crate::source::subscribe;
use crate::watch::{AnySource, PumpEnd, Sink};

/// The running poll of a controller.
struct Polling<K, T, R: RequestKey> {
    schedule: PollSchedule,
    function: PollFunction<K, T>,
    limit: Duration,
    results: PollResults<T>,
    kind: Kind,
    cache: Cache,
    sink: Sink<R>,
}

/// A call that ended, with the state of its object; `None` if the object does not exist any more.
type Returned<T> = (Call, Result<Option<T>, Error>);

impl<K, T, R> AnySource<R> for Poll<K, T>
where
    K: TypedObject,
    T: PartialEq + Send + Sync + 'static,
    R: RequestKey + From<ObjectKey>,
{
    fn run(self: Box<Self>, cache: &Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        let seed = RandomState::new().hash_one(self.every);
        let polling = Polling {
            schedule: PollSchedule::new(self.every, self.max_concurrent, seed),
            function: self.function,
            limit: self.limit,
            results: self.results,
            kind: Kind::of::<K>(),
            cache: cache.clone(),
            sink,
        };
        polling.run().boxed()
    }
}

impl<K, T, R> Polling<K, T, R>
where
    K: TypedObject,
    T: PartialEq + Send + Sync + 'static,
    R: RequestKey + From<ObjectKey>,
{
    async fn run(mut self) -> PumpEnd {
        let mut changes = self.cache.scope_changes();
        let Some(mut deliveries) = self.deliveries() else {
            return PumpEnd::Finished;
        };
        let mut calls = FuturesUnordered::new();
        loop {
            while let Some(call) = self.schedule.next(now()) {
                calls.push(self.call(call));
            }
            tokio::select! {
                delivery = deliveries.next() => match delivery {
                    Some(Delivery::Event(event)) => self.observe(&event),
                    Some(_) => {}
                    None => return PumpEnd::Stopped { kind: self.kind },
                },
                Some((call, state)) = calls.next(), if !calls.is_empty() => self.end(&call, state),
                () = at(self.schedule.next_due()) => {}
                // CTRL-42: known objects come again, and those that were deleted meanwhile are missing when
                // they are called.
                _ = changes.changed() => match self.deliveries() {
                    Some(all) => deliveries = all,
                    None => return PumpEnd::Finished,
                },
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Subscribes to the kind; `None` if the cache refuses it.
    fn deliveries(&self) -> Option<BoxStream<'static, Delivery<K>>> {
        let subscriptions = match subscribe::<K>(&self.cache, &self.kind) {
            Ok(subscriptions) => subscriptions,
            Err(error) => {
                tracing::error!(
                    controller = self.sink.status.controller(),
                    kind = %self.kind,
                    error = %report(&error),
                    "the cache cannot watch the kind of a poll: change the options of the cache"
                );
                return None;
            }
        };
        let streams = subscriptions.into_iter().map(|subscription| {
            unfold(subscription, |mut subscription| async move {
                Some((subscription.next().await?, subscription))
            })
            .boxed()
        });
        Some(select_all(streams).boxed())
    }

    fn observe(&mut self, event: &Event<K>) {
        let key = event.key();
        match (event.old(), event.current()) {
            (None, Some(_)) => self.schedule.appeared(key, now()),
            // SRC-1: the state may be about the former spec.
            (Some(old), Some(new)) if old.generation() != new.generation() => {
                self.schedule.call_now(key, now());
            }
            (Some(_), Some(_)) => {}
            (_, None) => self.forget(key),
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.schedule.forget(key);
        self.results.forget(key);
    }

    /// Calls the function for the object as the cache has it when the call begins.
    fn call(&self, call: Call) -> BoxFuture<'static, Returned<T>> {
        let (cache, limit) = (self.cache.clone(), self.limit);
        let (function, key) = (Arc::clone(&self.function), call.key.clone());
        let state = async move {
            match cache.get_opt::<K>(&key).await {
                Ok(Some(object)) => function(object).await.map(Some),
                Ok(None) => Ok(None),
                Err(error) if error.is_outside_scope() => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        // SRC-3
        let caught = AssertUnwindSafe(timeout(limit, state)).catch_unwind();
        let ended = caught.map(move |ended| match ended {
            Ok(Ok(state)) => state,
            Ok(Err(_)) => Err(Error::msg(format_args!(
                "the call took more than {limit:?}"
            ))),
            Err(payload) => Err(panicked(&*payload)),
        });
        ended.map(move |state| (call, state)).boxed()
    }

    fn end(&mut self, call: &Call, state: Result<Option<T>, Error>) {
        let end = self.schedule.ended(call, state.is_ok(), now());
        let changed = match (end, state) {
            (CallEnd::Forgotten, _) => return,
            (_, Ok(None)) => return self.forget(&call.key),
            (_, Ok(Some(state))) => self.put(&call.key, state),
            (_, Err(error)) => Err(error),
        };
        match (changed, end) {
            (Ok(is_changed), _) => {
                let outcome = match is_changed {
                    true => PollOutcome::Changed,
                    false => PollOutcome::Unchanged,
                };
                self.sink.source_metrics.polled(&self.kind, outcome);
            }
            (Err(error), CallEnd::Failed { failures, pause }) => {
                self.failed(&call.key, &error, failures, Some(pause));
            }
            (Err(error), _) => self.failed(&call.key, &error, 1, None),
        }
    }

    /// Stores a state, and requests the object if the state differs from the one before. Returns whether it
    /// does; an error if the comparison of the user's type panics.
    fn put(&self, key: &ObjectKey, state: T) -> Result<bool, Error> {
        let put = || self.results.put(key, state);
        let is_changed =
            catch_unwind(AssertUnwindSafe(put)).map_err(|payload| panicked(&*payload))?;
        // After the state is stored, so that the reconciler finds it.
        if is_changed {
            let options = AddOptions::new().cause(STREAM);
            self.sink.queue.add_with(R::from(key.clone()), options);
        }
        Ok(is_changed)
    }

    /// Counts a failed call, and logs it if it is the first one for its object or the number of failures has
    /// doubled since the last line.
    fn failed(&self, key: &ObjectKey, error: &Error, failures: u32, pause: Option<Duration>) {
        self.sink
            .source_metrics
            .polled(&self.kind, PollOutcome::Error);
        if !failures.is_power_of_two() {
            return;
        }
        tracing::warn!(
            controller = self.sink.status.controller(),
            kind = %self.kind,
            object = %key,
            failures,
            retry_in = pause.map(tracing::field::debug),
            error = %error.chain(),
            "the call of a poll failed: the object keeps its last state, and other objects are polled"
        );
    }
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    Error::msg(format_args!(
        "the function panicked: {}",
        panic_text(payload)
    ))
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Waits until `due`; forever if there is none.
async fn at(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due.into()).await,
        None => pending().await,
    }
}
