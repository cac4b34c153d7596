//! Seeded groups of whole programs: SHARD-1 and SHARD-2 despite failures of the server, of the replicas and of the Leases.
//!
//! No object has two reconciles at a time, and at the end each one was reconciled in its last state. `cargo xtask seeds --of
//! shards` runs any number of groups, or one group again.

use std::time::Duration;

use serde_json::Value;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::FaultSpec;
use steersman_manager::Manager;
use steersman_shards::Shards;
use steersman_testenv::seeds::SeededRng;
use tokio::time::sleep;

use super::{Ledger, NAMESPACES, object, replica, settled, start_of, until, world};
use crate::seeds::plan::{Fault, fault};
use crate::world::Started;

const REPLICAS: usize = 4;
const LEASES: &str = "leases.coordination.k8s.io";

enum Act {
    Sleep(u64),
    /// The requests of one replica, or of all replicas (`None`), fail in some way.
    Meet(Option<usize>, Fault),
    /// A replica is started, or the process of a running one is killed.
    Crash(usize),
    /// A replica is started, or a running one is asked to stop.
    Stop(usize),
    /// An administrator deletes the Lease of a replica, or that of the group (`None`).
    Delete(Option<usize>),
    /// A user changes some objects.
    Change(u64),
}

struct Group {
    server: ApiServer,
    ledger: Ledger,
    replicas: [Option<(Manager, Started)>; REPLICAS],
    /// Replicas that were asked to stop.
    stopping: Vec<Started>,
    runs: u64,
    /// The last data of each object.
    data: Vec<String>,
}

impl Group {
    fn new() -> Self {
        let (server, ledger) = world();
        Self {
            server,
            ledger,
            replicas: [const { None }; REPLICAS],
            stopping: Vec::new(),
            runs: 0,
            data: vec!["first".to_owned(); NAMESPACES],
        }
    }

    fn start(&mut self, slot: usize) {
        self.runs += 1;
        let name = format!("replica-{slot}");
        let shards = Shards::by_namespace("shop").abort_on_overrun(false);
        // The seed is part of the name of the member, so each run is a member of its own.
        let builder = replica(&self.server, &name, shards, self.runs);
        let run = format!("{name}-{}", self.runs);
        self.replicas[slot] = Some(start_of(builder, &run, &self.ledger));
    }

    async fn act(&mut self, act: Act) {
        match act {
            Act::Sleep(millis) => sleep(Duration::from_millis(millis)).await,
            Act::Meet(slot, fault) => {
                let spec: FaultSpec = *fault.spec;
                let spec = match slot {
                    Some(slot) => spec.user_agent(&format!("replica-{slot}/")),
                    None => spec,
                };
                self.server.faults().add(spec).unwrap().keep();
            }
            Act::Crash(slot) => match self.replicas[slot].take() {
                Some((_, started)) => started.task.abort(),
                None => self.start(slot),
            },
            Act::Stop(slot) => match self.replicas[slot].take() {
                Some((_, started)) => {
                    started.stop.cancel();
                    self.stopping.push(started);
                }
                None => self.start(slot),
            },
            Act::Delete(slot) => self.delete(slot),
            Act::Change(bits) => {
                let changed = (0..NAMESPACES).filter(|number| bits >> (number % 64) & 1 == 1);
                for number in changed.collect::<Vec<_>>() {
                    self.change(number, &format!("{bits:x}"));
                }
            }
        }
    }

    fn delete(&self, slot: Option<usize>) {
        let leases = self.server.list(LEASES, "default");
        let name = |lease: &Value| {
            lease["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let is_group = |name: &String| name == "shop";
        let names = leases.iter().map(name);
        let mut found: Vec<String> = match slot {
            None => names.filter(is_group).collect(),
            Some(_) => names.filter(|name| !is_group(name)).collect(),
        };
        if let (Some(slot), false) = (slot, found.is_empty()) {
            found = vec![found.swap_remove(slot % found.len())];
        }
        for name in found {
            self.server.delete(LEASES, "default", &name).unwrap();
        }
    }

    fn change(&mut self, number: usize, data: &str) {
        data.clone_into(&mut self.data[number]);
        self.server
            .update("configmaps", object(number, data))
            .unwrap();
    }

    /// Checks that without faults each object is reconciled in its last state, and each later change, too.
    async fn rest(mut self) {
        self.server.faults().clear();
        for slot in 0..2 {
            if self.replicas[slot].is_none() {
                self.start(slot);
            }
        }
        let running = self.replicas.iter().flatten();
        let managers: Vec<&Manager> = running.map(|(manager, _)| manager).collect();
        settled(&managers).await;
        let (ledger, data) = (self.ledger.clone(), self.data.clone());
        until("each object is reconciled in its last state", async || {
            ledger.has_all() && (0..NAMESPACES).all(|number| ledger.data(number) == data[number])
        })
        .await;
        self.ledger.forget();
        for number in 0..NAMESPACES {
            self.change(number, "last");
        }
        until("each change is reconciled", async || ledger.has_all()).await;
        for (_, started) in self.replicas.into_iter().flatten() {
            started.stop().await.unwrap();
        }
        self.ledger.assert_none_twice();
    }
}

fn acts(rng: &mut SeededRng) -> Vec<Act> {
    let mut acts = vec![Act::Sleep(rng.below(20_000))];
    for _ in 0..4 + rng.below(8) {
        let slot = rng.index(REPLICAS);
        acts.push(match rng.below(12) {
            0 | 1 => Act::Meet(Some(slot), fault(rng)),
            2 => Act::Meet(None, fault(rng)),
            3..=5 => Act::Crash(slot),
            6 | 7 => Act::Stop(slot),
            8 => Act::Delete(Some(slot)),
            9 => Act::Delete(None),
            _ => Act::Change(rng.below(u64::MAX)),
        });
        acts.push(Act::Sleep(rng.below(12_000)));
    }
    acts
}

fn live(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut rng = SeededRng::new(seed ^ 0x54a2_d000);
        let mut group = Group::new();
        for slot in 0..1 + rng.index(REPLICAS) {
            group.start(slot);
        }
        for act in acts(&mut rng) {
            group.act(act).await;
        }
        group.rest().await;
    });
}

// SHARD-1, SHARD-2, SHARD-3
#[test]
fn no_object_has_two_reconciles_at_a_time_and_none_is_forgotten() {
    steersman_testenv::seeds::live(0..60, "cargo xtask seeds --of shards --only", live);
}
