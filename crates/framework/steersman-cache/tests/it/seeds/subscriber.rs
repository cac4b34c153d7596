//! A subscriber of one informer that replays its events.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use steersman_informer::{Delivery, Event, Subscription};
use steersman_object::{Object, ResourceVersion};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// The known state of each object, by key.
pub(super) type Known = BTreeMap<String, Identity>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) version: String,
    /// Whether the Rust type can decode the object.
    pub(super) readable: bool,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A subscriber of any type.
pub(super) trait AnySubscriber {
    fn place(&self) -> Option<&'static str>;

    /// Takes up to `most` available deliveries.
    fn take(&mut self, most: usize) -> Boxed<'_, ()>;

    /// Takes all deliveries, and waits for the end of the initial set.
    fn catch_up(&mut self) -> Boxed<'_, ()>;

    /// FAN-1, FAN-2: checks that the replayed state equals that of the server.
    fn check(&self, served: &Known);

    /// CACHE-7: takes the remaining deliveries up to the end of the stream.
    fn end(self: Box<Self>) -> Boxed<'static, ()>;
}

pub(super) struct ReplayingSubscriber<V> {
    subscription: Subscription<V>,
    place: Option<&'static str>,
    /// Whether the subscriber's type decodes objects that the kind's Rust type does not.
    reads_all: bool,
    known: Known,
    synced: u32,
}

impl<V: Object> ReplayingSubscriber<V> {
    pub(super) fn new(
        subscription: Subscription<V>,
        place: Option<&'static str>,
        reads_all: bool,
    ) -> Self {
        Self {
            subscription,
            place,
            reads_all,
            known: Known::new(),
            synced: 0,
        }
    }

    fn receive(&mut self, delivery: &Delivery<V>) {
        match delivery {
            Delivery::Event(event) => self.replay(event),
            _ => self.synced += 1,
        }
    }

    /// FAN-1: checks that each event of an object continues from the previous event, so that none is repeated or out of
    /// order.
    fn replay(&mut self, event: &Event<V>) {
        let (key, entry) = (event.key().to_string(), event.entry());
        let identity = Identity {
            uid: entry.uid().to_string(),
            version: entry.version().to_string(),
            readable: true,
        };
        let before = match event {
            Event::Created { .. } => {
                assert_eq!(self.known.insert(key, identity), None, "{event:?}");
                return;
            }
            Event::Updated { old, new, .. } => {
                let before = self.known.insert(key, identity.clone());
                let taken = before.as_ref().map(|before| before.version.as_str());
                assert_eq!(taken, Some(old.version().as_str()), "{event:?}");
                assert!(new.version().is_at_least(old.version()), "{event:?}");
                before
            }
            Event::Deleted { .. } => self.known.remove(&key),
        };
        let uid = before.map(|before| before.uid);
        assert_eq!(uid, Some(identity.uid), "{event:?}");
    }
}

impl<V: Object> AnySubscriber for ReplayingSubscriber<V> {
    fn place(&self) -> Option<&'static str> {
        self.place
    }

    fn take(&mut self, most: usize) -> Boxed<'_, ()> {
        Box::pin(async move {
            for _ in 0..most {
                if self.subscription.waiting() == 0 {
                    return;
                }
                let delivery = self.subscription.next().await.unwrap();
                self.receive(&delivery);
            }
        })
    }

    fn catch_up(&mut self) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.take(usize::MAX).await;
            while self.synced == 0 {
                let next = tokio::time::timeout(HOUR, self.subscription.next()).await;
                let delivery = next.expect("the initial set has an end").unwrap();
                self.receive(&delivery);
                self.take(usize::MAX).await;
            }
        })
    }

    fn check(&self, served: &Known) {
        assert_eq!(self.synced, 1);
        let mut expected = served.clone();
        let mut known = self.known.clone();
        if !self.reads_all {
            // VIEW-1: of an unreadable object, the subscriber knows the last good state, or none.
            for (key, served) in served.iter().filter(|(_, served)| !served.readable) {
                expected.remove(key);
                if let Some(before) = known.remove(key) {
                    let (before, now) = (ResourceVersion::new(&before.version), &served.version);
                    assert!(ResourceVersion::new(now).is_at_least(&before), "{key}");
                }
            }
        }
        for identity in expected.values_mut() {
            identity.readable = true;
        }
        assert_eq!(known, expected);
    }

    fn end(mut self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async move {
            loop {
                let next = tokio::time::timeout(HOUR, self.subscription.next()).await;
                match next.expect("the stream of a removed informer ends") {
                    Some(delivery) => self.receive(&delivery),
                    None => return,
                }
            }
        })
    }
}
