//! Driver: polls an external state of each object by the user's function, and adds a request if the state has changed.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll as Progress;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt, poll_fn};
use futures::stream::{BoxStream, FuturesUnordered, SelectAll, StreamExt, once, unfold};
use steersman_api::clock::{at, now};
use steersman_cache::Cache;
use steersman_cache::internal::{CacheInternals as _, NamespacedInformer};
use steersman_informer::{Delivery, Event};
use steersman_object::{Kind, Object, ObjectKey, TypedObject, panic_text};
use tokio::time::timeout;

use super::schedule::{CallEnd, PollCall, PollSchedule};
use super::{Poll, PollFunction, PollResults};
use crate::error::Error;
use crate::metrics::sources::PollOutcome;
use crate::request::RequestKey;
use crate::watch::followed_namespaces::FollowedNamespaces;
use crate::watch::{AnySource, PumpEnd, Sink};

struct Polling<K: Object, T, R: RequestKey> {
    schedule: PollSchedule,
    function: PollFunction<K, T>,
    limit: Duration,
    results: PollResults<T>,
    kind: Kind,
    cache: Cache,
    sink: Sink<R>,
    namespaces: FollowedNamespaces,
    /// The informer of each polled namespace; `None` stands for all namespaces.
    informers: HashMap<Option<Arc<str>>, NamespacedInformer<K>>,
    /// The events of all polled namespaces, as one stream.
    deliveries: SelectAll<BoxStream<'static, PollDelivery<K>>>,
}

/// An event of the informer of a namespace, or the end of that informer.
enum PollDelivery<K: Object> {
    Delivery(Delivery<K>),
    Ended(NamespacedInformer<K>),
}

struct Returned<T> {
    call: PollCall,
    /// The last state of the object when the call began, to notice a state that the reconciler has set since (SRC-7).
    before: Option<Arc<T>>,
    /// The state that the function returned; `None` if the object, or its namespace in the cache, does not exist any
    /// more.
    state: Result<Option<T>, Error>,
}

impl<K, T, R> AnySource<R> for Poll<K, T>
where
    K: TypedObject,
    T: PartialEq + Send + Sync + 'static,
    R: RequestKey + From<ObjectKey>,
{
    fn run(self: Box<Self>, cache: Cache, sink: Sink<R>) -> BoxFuture<'static, PumpEnd> {
        let seed = RandomState::new().hash_one(self.every);
        let polling = Polling {
            schedule: PollSchedule::new(self.every, self.max_concurrent, seed),
            function: self.function,
            limit: self.limit,
            results: self.results,
            kind: Kind::of::<K>(),
            cache,
            sink,
            namespaces: FollowedNamespaces::default(),
            informers: HashMap::new(),
            deliveries: SelectAll::new(),
        };
        Box::pin(polling.run())
    }
}

impl<K, T, R> Polling<K, T, R>
where
    K: TypedObject,
    T: PartialEq + Send + Sync + 'static,
    R: RequestKey + From<ObjectKey>,
{
    async fn run(mut self) -> PumpEnd {
        // The subscription to changes of the scope comes before the informers are read, so that no added namespace is
        // missed.
        let mut changes = self.cache.scope_changes();
        let mut calls = FuturesUnordered::new();
        let mut is_stopped = !self.subscribe();
        while !is_stopped {
            while let Some(call) = self.schedule.next_call(now()) {
                calls.push(self.call(call));
            }
            tokio::select! {
                biased;
                Some(delivery) = self.deliveries.next() => match delivery {
                    PollDelivery::Delivery(Delivery::Event(event)) => self.observe(&event),
                    // Another replica polls the object from now on.
                    PollDelivery::Delivery(Delivery::Released(key)) => self.forget(&key),
                    // Other deliveries carry no object, so the schedule does not change.
                    PollDelivery::Delivery(_) => {}
                    PollDelivery::Ended(informer) => is_stopped = !self.leave(&informer),
                },
                Some(returned) = calls.next(), if !calls.is_empty() => self.end(returned),
                () = at(self.schedule.deadline()) => {}
                // CTRL-42: namespaces were added to the cache or removed from it. The poll subscribes to the added
                // namespaces.
                _ = changes.changed() => is_stopped = !self.subscribe(),
            }
            tokio::task::coop::consume_budget().await;
        }
        PumpEnd::Stopped { kind: self.kind }
    }

    /// Subscribes to the informers of namespaces without a subscription. Returns false if the cache has stopped and
    /// gives no informers.
    fn subscribe(&mut self) -> bool {
        let Ok(informers) = self.cache.informers_by_namespace::<K>(&self.kind) else {
            return false;
        };
        for informer in self.namespaces.begin(&informers) {
            self.informers
                .insert(informer.namespace().cloned(), informer.clone());
            self.deliveries.push(deliveries(informer));
        }
        true
    }

    /// CTRL-42: forgets the objects of a removed namespace. Returns false if the informer ended for another reason.
    fn leave(&mut self, informer: &NamespacedInformer<K>) -> bool {
        self.informers.remove(&informer.namespace().cloned());
        if !self.namespaces.end(informer) {
            return false;
        }
        let namespace = informer.namespace().map(|name| &**name);
        for key in self.schedule.keys_in(namespace) {
            self.forget(&key);
        }
        // Subscribes again, because the namespace may have been added again meanwhile.
        self.subscribe()
    }

    fn observe(&mut self, event: &Event<K>) {
        let key = event.key();
        match (event.old(), event.current()) {
            (None, Some(_)) => self.schedule.handle_appeared(key, now()),
            // SRC-1: a changed spec polls at once, because the last state may depend on the former spec.
            (Some(old), Some(new)) if old.generation() != new.generation() => {
                self.schedule.handle_call_now(key, now());
            }
            (Some(_), Some(_)) => {}
            (_, None) => self.forget(key),
        }
    }

    fn forget(&mut self, key: &ObjectKey) {
        self.schedule.handle_gone(key);
        self.results.forget(key);
    }

    /// Calls the function for the object as the cache has it when the call begins.
    fn call(&self, call: PollCall) -> BoxFuture<'static, Returned<T>> {
        let (cache, limit) = (self.cache.clone(), self.limit);
        let (function, key) = (Arc::clone(&self.function), call.key.clone());
        let informer = self.informer_of(&key);
        let before = self.results.get(&key);
        let state = async move {
            match cache.get_opt::<K>(&key).await {
                Ok(Some(object)) => function(object).await.map(Some),
                Ok(None) => Ok(None),
                Err(error) if error.is_outside_scope() => Ok(None),
                Err(error) => Err(error.into()),
            }
        };
        // SRC-3: a call that panics or exceeds the limit counts as failed.
        let caught =
            AssertUnwindSafe(timeout(limit, while_in_scope(informer, state))).catch_unwind();
        let ended = caught.map(move |ended| match ended {
            Ok(Ok(state)) => state,
            Ok(Err(_)) => Err(Error::msg(format_args!(
                "the call took more than {limit:?}"
            ))),
            Err(payload) => Err(panicked(&*payload)),
        });
        let returned = move |state| Returned {
            call,
            before,
            state,
        };
        ended.map(returned).boxed()
    }

    fn informer_of(&self, key: &ObjectKey) -> Option<NamespacedInformer<K>> {
        let named = key.namespace().map(Arc::from);
        let informer = self.informers.get(&named);
        informer.or_else(|| self.informers.get(&None)).cloned()
    }

    fn end(&mut self, returned: Returned<T>) {
        let Returned {
            call,
            before,
            state,
        } = returned;
        let end = self.schedule.handle_end(&call, state.is_ok(), now());
        let changed = match (end, state) {
            (CallEnd::Forgotten, _) => return,
            (_, Ok(None)) => return self.forget(&call.key),
            (_, Ok(Some(state))) => self.put(&call.key, before.as_ref(), state),
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

    /// Stores the state that a call returned, and requests the object if the state differs from the previous state.
    /// Returns whether it differs, or an error if the comparison panicked.
    fn put(&self, key: &ObjectKey, before: Option<&Arc<T>>, state: T) -> Result<bool, Error> {
        let put = || self.results.put(key, before, state);
        let is_changed =
            catch_unwind(AssertUnwindSafe(put)).map_err(|payload| panicked(&*payload))?;
        // The state is stored before the object is requested, so that the reconciler finds it.
        if is_changed {
            self.sink.request(R::from(key.clone()));
        }
        Ok(is_changed)
    }

    /// Counts a failed call. Logs it if the number of failures of the object is a power of two.
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

/// Waits for the state of an object while its namespace is in the scope of the cache. Returns `None` at the first
/// wake-up after the namespace was removed.
///
/// CTRL-42: the scope is checked at each wake-up, because the subscription ends only some time after the namespace was
/// removed.
async fn while_in_scope<K: Object, T>(
    informer: Option<NamespacedInformer<K>>,
    state: impl Future<Output = Result<Option<T>, Error>>,
) -> Result<Option<T>, Error> {
    let mut state = pin!(state);
    poll_fn(|context| match &informer {
        Some(informer) if informer.has_left_scope() => Progress::Ready(Ok(None)),
        _ => state.as_mut().poll(context),
    })
    .await
}

/// Returns the deliveries of an informer, and after them a delivery that reports its end.
fn deliveries<K: Object>(informer: NamespacedInformer<K>) -> BoxStream<'static, PollDelivery<K>> {
    let deliveries = unfold(informer.subscribe(), |mut subscription| async move {
        let delivery = subscription.next().await?;
        Some((PollDelivery::Delivery(delivery), subscription))
    });
    let end = once(async { PollDelivery::Ended(informer) });
    deliveries.chain(end).boxed()
}

fn panicked(payload: &(dyn Any + Send)) -> Error {
    Error::msg(format_args!(
        "the function panicked: {}",
        panic_text(payload)
    ))
}
