//! A subscriber of one informer, who replays what it takes.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use steersman_informer::{Delivery, Event, Subscription};
use steersman_object::{Object, ResourceVersion};

pub(super) const HOUR: Duration = Duration::from_secs(3600);

/// What is known of each object, by its key.
pub(super) type Known = BTreeMap<String, Identity>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uid: String,
    pub(super) version: String,
    /// Its Rust type can read it.
    pub(super) readable: bool,
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// An onlooker, whatever it looks at objects as.
pub(super) trait Onlook {
    fn place(&self) -> Option<&'static str>;

    /// Takes so many deliveries, as far as there are any.
    fn take(&mut self, most: usize) -> Boxed<'_, ()>;

    /// Takes everything, and waits for the end of the initial set.
    fn catch_up(&mut self) -> Boxed<'_, ()>;

    /// FAN-1, FAN-2: it knows what there is.
    fn check(&self, served: &Known);

    /// CACHE-7: takes what is left, up to the end of the stream.
    fn end(self: Box<Self>) -> Boxed<'static, ()>;
}

pub(super) struct Onlooker<V> {
    subscription: Subscription<V>,
    place: Option<&'static str>,
    /// Whether it reads what its Rust type does not.
    reads_all: bool,
    known: Known,
    synced: u32,
}

impl<V: Object> Onlooker<V> {
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

    /// FAN-1: what is told fits what was told before, object by object; nothing is told twice, and what
    /// happened to one object in no other order.
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

impl<V: Object> Onlook for Onlooker<V> {
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
            // VIEW-1: of what cannot be read is known what was seen of it before, or nothing.
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
                match next.expect("the stream of what was removed ends") {
                    Some(delivery) => self.receive(&delivery),
                    None => return,
                }
            }
        })
    }
}
