//! One informer of a world, and its subscribers.

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::Registry;
use steersman_api::{ApiListWatch, ClientConfig, Encoding};
use steersman_apiserver::ApiServer;
use steersman_informer::{
    Budget, Delivery, Event, Informer, InformerMetrics, InformerOptions, ServerHealth, Subscription,
};
use steersman_object::{Kind, Object};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::NAMESPACES;
use super::plan::Options;
use crate::budget::of;

const HOUR: Duration = Duration::from_secs(3600);

/// The uid and version of each object that a subscriber knows.
type Known = BTreeMap<String, (String, String)>;

/// A subscriber that replays its events.
struct Subscriber<K> {
    subscription: Subscription<K>,
    known: Known,
    synced: u32,
}

impl<K: Object> Subscriber<K> {
    async fn take(&mut self, most: usize) {
        for _ in 0..most {
            if self.subscription.waiting() == 0 {
                return;
            }
            match self.subscription.next().await.unwrap() {
                Delivery::Event(event) => self.replay(&event),
                _ => self.synced += 1,
            }
        }
    }

    /// FAN-1: each event follows from the events before it, object by object.
    fn replay(&mut self, event: &Event<K>) {
        let (key, entry) = (event.key().to_string(), event.entry());
        let version = entry.object().stored_version();
        assert_eq!(version, *entry.version(), "{event:?}");
        let identity = (entry.uid().to_string(), entry.version().to_string());
        let before = match event {
            Event::Created { .. } => {
                assert_eq!(self.known.insert(key, identity), None, "{event:?}");
                return;
            }
            Event::Updated { old, new, .. } => {
                let before = self.known.insert(key, identity.clone());
                let taken = before.as_ref().map(|(_, version)| version.as_str());
                assert_eq!(taken, Some(old.version().as_str()), "{event:?}");
                assert!(new.version().is_at_least(old.version()), "{event:?}");
                before
            }
            Event::Deleted { .. } => self.known.remove(&key),
        };
        assert_eq!(before.map(|(uid, _)| uid), Some(identity.0), "{event:?}");
    }
}

/// An informer of one kind with its subscribers.
pub(super) struct Watched<K> {
    informer: Informer<K>,
    onlookers: Vec<Subscriber<K>>,
    resource: &'static str,
    namespace: Option<&'static str>,
    selects: bool,
    registry: Registry,
    _stop: DropGuard,
}

impl<K: Object> Watched<K> {
    pub(super) fn start(
        server: &ApiServer,
        kind: Kind,
        resource: &'static str,
        namespace: Option<&'static str>,
        (options, health, seed): (&Options, &ServerHealth, u64),
    ) -> Self {
        let registry = Registry::new();
        let mut set = InformerOptions::new()
            .watch_list(options.watch_list)
            .mailbox_bound(options.mailbox)
            .queue_bound(options.queue)
            .page_size(options.page)
            .budget(Budget::new(options.budget))
            .metrics(InformerMetrics::register(&registry).unwrap())
            .decode_batches(options.decode_batches.0, options.decode_batches.1)
            .health(health.clone())
            .seed(seed);
        if let Some(millis) = options.resync {
            set = set.resync(Duration::from_millis(millis));
        }
        if options.selects {
            set = set.labels("keep=yes");
        }
        let informer = Informer::new(kind.clone(), set);
        let client = ClientConfig::in_process(server.service(), "default")
            .encoding(Encoding::ALL[seed as usize % 2])
            .client();
        let list_watch = ApiListWatch::new(client.unwrap(), kind, namespace.map(Into::into));
        let cancel = CancellationToken::new();
        tokio::spawn(informer.run(list_watch, cancel.clone()));
        let mut watched = Self {
            informer,
            onlookers: Vec::new(),
            resource,
            namespace,
            selects: options.selects,
            registry,
            _stop: cancel.drop_guard(),
        };
        watched.subscribe();
        watched
    }

    pub(super) fn subscribe(&mut self) {
        self.onlookers.push(Subscriber {
            subscription: self.informer.subscribe(),
            known: Known::new(),
            synced: 0,
        });
    }

    /// Returns the packed size of the objects, as a percentage of their JSON.
    pub(super) fn packed(&self) -> usize {
        let bytes = of(&self.registry, "bytes").max(1);
        of(&self.registry, "packed_bytes") * 100 / bytes
    }

    pub(super) fn leave(&mut self, who: u8) {
        if self.onlookers.len() > 1 {
            let who = usize::from(who) % self.onlookers.len();
            drop(self.onlookers.swap_remove(who));
        }
    }

    pub(super) async fn take(&mut self, who: u8, count: u8) {
        let who = usize::from(who) % self.onlookers.len();
        self.onlookers[who].take(usize::from(count)).await;
    }

    fn served(&self, server: &ApiServer) -> Known {
        let namespaces = NAMESPACES.into_iter();
        let within = namespaces.filter(|one| self.namespace.is_none_or(|all| all == *one));
        let objects = within.flat_map(|namespace| server.list(self.resource, namespace));
        let selected =
            objects.filter(|object| !self.selects || object["metadata"]["labels"]["keep"] == "yes");
        let known = selected.map(|object| {
            let text = |field: &str| object["metadata"][field].as_str().unwrap().to_owned();
            let key = format!("{}/{}", text("namespace"), text("name"));
            (key, (text("uid"), text("resourceVersion")))
        });
        known.collect()
    }

    fn stored(&self) -> Known {
        let entries = self.informer.store().entries(None);
        let known = entries.iter().map(|entry| {
            let identity = (entry.uid().to_string(), entry.version().to_string());
            (entry.key().to_string(), identity)
        });
        known.collect()
    }

    /// Waits, on the paused clock, until the store equals the server; then checks the subscribers.
    pub(super) async fn check(&mut self, server: &ApiServer) {
        let served = self.served(server);
        let converged = async {
            let mut pause = Duration::from_millis(1);
            while !self.informer.has_synced() || self.stored() != served {
                tokio::time::sleep(pause).await;
                pause = pause * 3 / 2;
            }
        };
        if tokio::time::timeout(HOUR, converged).await.is_err() {
            let (kind, state) = (self.informer.kind(), self.informer.state());
            panic!(
                "{kind}: stored {:?}, served {served:?}, {state}",
                self.stored()
            );
        }
        for onlooker in &mut self.onlookers {
            onlooker.take(usize::MAX).await;
            assert_eq!(onlooker.synced, 1);
            assert_eq!(onlooker.known, served);
        }
        // The stored bodies equal the objects of the server, too.
        for object in self.informer.store().list() {
            let key = object.key();
            let namespace = key.namespace().unwrap();
            let served = server.get(self.resource, namespace, key.name()).unwrap();
            let stored = serde_json::to_value(&*object).unwrap();
            for part in ["data", "spec"] {
                assert_eq!(stored.get(part), served.get(part));
            }
        }
    }
}
