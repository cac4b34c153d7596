//! Seeded worlds: writes, faults and subscribers at random; in the end all agree.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use proptest::prelude::*;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Verb};
use steersman_informer::{Delivery, Event, InformerOptions, Subscription};
use steersman_object::Object;

use super::world::{MAPS, World, put};

#[derive(Clone, Copy, Debug)]
enum Act {
    Put(u8),
    Delete(u8),
    Recreate(u8),
    Cut,
    Break,
    Silence,
    Compact,
    /// The next watch is answered so.
    Refuse(u16),
    RefuseList(u16),
    Sleep(u64),
    Subscribe,
    /// One subscriber takes so many deliveries.
    Take(u8),
}

fn act() -> impl Strategy<Value = Act> {
    let name = 0..6_u8;
    let code = prop::sample::select(vec![410_u16, 429, 500, 503, 504]);
    prop_oneof![
        8 => name.clone().prop_map(Act::Put),
        3 => name.clone().prop_map(Act::Delete),
        2 => name.prop_map(Act::Recreate),
        3 => Just(Act::Cut),
        2 => Just(Act::Break),
        1 => Just(Act::Silence),
        2 => Just(Act::Compact),
        2 => code.clone().prop_map(Act::Refuse),
        1 => code.prop_map(Act::RefuseList),
        4 => (0..3_000_u64).prop_map(Act::Sleep),
        2 => Just(Act::Subscribe),
        2 => (0..8_u8).prop_map(Act::Take),
    ]
}

/// A subscriber who replays what it takes.
struct Onlooker {
    subscription: Subscription<ConfigMap>,
    world: BTreeMap<String, (String, String)>,
    synced: u32,
}

impl Onlooker {
    fn new(subscription: Subscription<ConfigMap>) -> Self {
        Self {
            subscription,
            world: BTreeMap::new(),
            synced: 0,
        }
    }

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

    fn replay(&mut self, event: &Event<ConfigMap>) {
        let name = event.key().name().to_owned();
        let entry = event.object();
        let identity = (entry.uid().to_owned(), entry.version().to_string());
        let before = match event {
            Event::Created { .. } => {
                assert_eq!(self.world.insert(name, identity), None, "{event:?}");
                return;
            }
            Event::Updated { old, .. } => {
                let before = self.world.insert(name, identity.clone());
                assert_eq!(
                    before.as_ref().map(|b| b.1.as_str()),
                    Some(old.version().as_str())
                );
                before
            }
            Event::Deleted { .. } => self.world.remove(&name),
        };
        assert_eq!(before.map(|before| before.0), Some(identity.0), "{event:?}");
    }
}

struct Sim {
    server: ApiServer,
    world: World<ConfigMap>,
    onlookers: Vec<Onlooker>,
    round: u64,
}

impl Sim {
    fn new(options: InformerOptions) -> Self {
        let server = ApiServer::builder().seed(1).build();
        put(&server, "m0", "start");
        put(&server, "m1", "start");
        let world = World::of_maps(&server, options);
        let onlookers = vec![Onlooker::new(world.informer.subscribe())];
        Self {
            server,
            world,
            onlookers,
            round: 0,
        }
    }

    async fn act(&mut self, act: Act) {
        self.round += 1;
        let value = self.round.to_string();
        let faults = self.server.faults();
        let remove = |name: &str| {
            // It may not be there.
            let _ = self.server.delete(MAPS, "default", name);
        };
        match act {
            Act::Put(name) => drop(put(&self.server, &format!("m{name}"), &value)),
            Act::Delete(name) => remove(&format!("m{name}")),
            Act::Recreate(name) => {
                remove(&format!("m{name}"));
                put(&self.server, &format!("m{name}"), &value);
            }
            Act::Cut => drop(faults.cut_watches()),
            Act::Break => drop(faults.break_watches()),
            Act::Silence => drop(faults.silence_watches()),
            Act::Compact => self.server.compact(),
            Act::Refuse(code) => {
                let answer = Answer::code(code).times(1);
                faults.answer(Verb::Watch, MAPS, answer).keep();
            }
            Act::RefuseList(code) => {
                let answer = Answer::code(code).times(1);
                faults.answer(Verb::List, MAPS, answer).keep();
            }
            Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
            Act::Subscribe => {
                let subscription = self.world.informer.subscribe();
                self.onlookers.push(Onlooker::new(subscription));
            }
            Act::Take(count) => {
                let round = usize::try_from(self.round).unwrap_or(0);
                let which = round % self.onlookers.len();
                self.onlookers[which].take(usize::from(count)).await;
            }
        }
    }

    async fn check(mut self) {
        self.world.informer.wait_for_sync().await.unwrap();
        self.world.converged(MAPS).await;
        let entries = self.world.informer.store().entries(None);
        let expected: BTreeMap<String, (String, String)> = entries
            .iter()
            .map(|entry| {
                let identity = (entry.uid().to_owned(), entry.version().to_string());
                (entry.key().name().to_owned(), identity)
            })
            .collect();
        for onlooker in &mut self.onlookers {
            onlooker.take(usize::MAX).await;
            assert_eq!(onlooker.synced, 1);
            assert_eq!(onlooker.world, expected);
        }
        // Bodies are what the server has, too.
        for map in self.world.informer.store().list() {
            let key = map.key();
            let served = self.server.get(MAPS, "default", key.name()).unwrap();
            let served: ConfigMap = serde_json::from_value(served).unwrap();
            assert_eq!(map.data, served.data);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    // REFL-2, REFL-3, STORE-3, FAN-1, FAN-2
    #[test]
    fn every_world_ends_with_the_store_and_each_onlooker_equal_to_the_server(
        acts in prop::collection::vec(act(), 1..50),
        watch_list in any::<bool>(),
        bound in prop::sample::select(vec![0_usize, 3, 1000]),
        seed in any::<u64>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let options = InformerOptions::new()
            .watch_list(watch_list)
            .mailbox_bound(bound)
            .queue_bound(2)
            .page_size(2)
            .seed(seed);
        runtime.block_on(async {
            let mut sim = Sim::new(options);
            for act in acts {
                sim.act(act).await;
            }
            sim.check().await;
        });
    }
}
