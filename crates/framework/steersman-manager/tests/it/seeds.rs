//! Seeded worlds of three replicas of one operator: LEASE-1 to LEASE-3, despite failures of the server, of the
//! replicas and of the Lease.
//!
//! No reconcile of a new leader begins before the last one of the old leader has ended, and a new leader works in
//! bounded time. `cargo xtask seeds --of leaders` runs any number of worlds, or one world again.

mod ledger;
pub(crate) mod plan;

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use steersman_api::{ClientConfig, Encoding};
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::FaultSpec;
use steersman_cache::CacheOptions;
use steersman_controller::{
    Action, Context, Controller, Error as ReconcileError, Request, reconcile,
};
use steersman_lease::LeaderElection;
use steersman_manager::Manager;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::ledger::Ledger;
use self::plan::{Act, Fault, Plan, REPLICAS};
use crate::world::config_map;

const LEASES: &str = "leases.coordination.k8s.io";
/// The lease duration, plus the longest pauses of a standby before it sees the last renewal and after the expiry.
const FAILOVER: Duration = Duration::from_millis(23_800);

/// The time limit of an elector's request.
const REQUEST: Duration = Duration::from_secs(5);

/// A replica that runs.
struct Replica {
    /// A number that is unique among all runs of all replicas.
    run: u64,
    manager: Manager,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

struct Sim {
    server: ApiServer,
    plan: Plan,
    replicas: [Option<Replica>; REPLICAS],
    runs: u64,
    ledger: Ledger,
    /// The instant at which the last fault, and the requests that it affected, have ended.
    faults_until: Instant,
}

impl Sim {
    fn new(plan: Plan) -> Self {
        let server = ApiServer::builder()
            .seed(plan.seed)
            .play_controllers(false)
            .track_managed_fields(false)
            .build();
        server.create(config_map("one")).unwrap();
        Self {
            server,
            plan,
            replicas: [None, None, None],
            runs: 0,
            ledger: Ledger::default(),
            faults_until: Instant::now(),
        }
    }

    fn begin(&mut self, slot: usize) {
        self.runs += 1;
        let run = self.runs;
        let skew = SignedDuration::from_secs(self.plan.skews[slot]);
        let options = LeaderElection::new("shop")
            .identity(format!("replica-{slot}-{run}"))
            .seed(self.plan.seed ^ run)
            .clock(move || Timestamp::now() + skew)
            .abort_on_overrun(false)
            .on_callers_runtime();
        let client_config = ClientConfig::in_process(self.server.service(), "default")
            .encoding(Encoding::ALL[self.plan.seed as usize % 2])
            .user_agent(&format!("replica-{slot}"), "1");
        let manager = Manager::builder(client_config)
            .cache(CacheOptions::new().seed(run))
            .leader_election(options)
            .build()
            .unwrap();
        let (ledger, plan) = (self.ledger.clone(), self.plan.clone());
        let reconciler = reconcile::from_fn(move |_: Context, _: Request| {
            let (ledger, plan) = (ledger.clone(), plan.clone());
            async move {
                let _reconcile = ledger.begin(run);
                sleep(plan.work).await;
                Ok::<_, ReconcileError>(Action::requeue_after(plan.pause))
            }
        });
        let controller = Controller::builder::<ConfigMap>()
            .build(reconciler)
            .unwrap();
        manager.add_controller(controller).unwrap();
        let stop = CancellationToken::new();
        let running = manager.start(stop.clone());
        let task = tokio::spawn(async move { drop(running.await) });
        self.replicas[slot] = Some(Replica {
            run,
            manager,
            stop,
            task,
        });
    }

    async fn act(&mut self, act: &Act) {
        match act {
            Act::Sleep(millis) => {
                sleep(Duration::from_millis(*millis)).await;
                self.restart();
            }
            Act::Meet(slot, fault) => self.meet(*slot, fault),
            Act::Crash(slot) => {
                if let Some(replica) = self.replicas[*slot].take() {
                    replica.task.abort();
                }
            }
            Act::Stop(slot) => {
                if let Some(replica) = &self.replicas[*slot] {
                    replica.stop.cancel();
                }
            }
            Act::Delete if self.every_replica_knows_the_holder() => {
                drop(self.server.delete(LEASES, "default", "shop"));
            }
            // LEASE-3: a candidate that knows no holder waits until the leader, which the server answers, has noticed
            // it with its next renewal.
            Act::Delete if self.faults_until <= Instant::now() => {
                drop(self.server.delete(LEASES, "default", "shop"));
                sleep(Duration::from_secs(5)).await;
            }
            Act::Delete => {}
            Act::Overwrite(spec) => {
                let patch = json!({"spec": spec});
                drop(self.server.merge_patch(LEASES, "default", "shop", &patch));
            }
        }
    }

    fn meet(&mut self, slot: Option<usize>, fault: &Fault) {
        let until = Instant::now() + fault.lasts + REQUEST;
        self.faults_until = self.faults_until.max(until);
        let spec = FaultSpec::clone(&fault.spec);
        let fault = match slot {
            Some(slot) => spec.user_agent(&format!("replica-{slot}/")),
            None => spec,
        };
        self.server.faults().add(fault).unwrap().keep();
    }

    /// Starts ended replicas again, as a kubelet does. A new replica knows no earlier holder: without a Lease it cannot
    /// know of a leader with failing requests, which is the limit of LEASE-3.
    fn restart(&mut self) {
        for slot in 0..REPLICAS {
            let is_over = self.replicas[slot]
                .as_ref()
                .is_none_or(|replica| replica.task.is_finished());
            let lease = self.server.get(LEASES, "default", "shop");
            if is_over && (lease.is_some() || !self.any_replica_runs()) {
                self.begin(slot);
            }
        }
    }

    fn any_replica_runs(&self) -> bool {
        let mut replicas = self.replicas.iter().flatten();
        replicas.any(|replica| !replica.task.is_finished())
    }

    /// Returns false if a replica last read a released Lease, so that it does not know a later holder.
    fn every_replica_knows_the_holder(&self) -> bool {
        let lease = self.server.get(LEASES, "default", "shop");
        let holder = lease.map(|lease| lease["spec"]["holderIdentity"].clone());
        self.replicas.iter().flatten().all(|replica| {
            let status = replica.manager.lease_status();
            let known = status.and_then(|status| status.age.and(status.holder));
            replica.task.is_finished() || known.map(Value::from) == holder
        })
    }

    fn leader(&self) -> Option<usize> {
        (0..REPLICAS).find(|slot| {
            let replica = self.replicas[*slot].as_ref();
            replica
                .is_some_and(|replica| !replica.task.is_finished() && replica.manager.is_leader())
        })
    }

    /// Checks that without faults a replica leads in bounded time, and after a crash another one does.
    async fn rest(&mut self) {
        self.server.faults().clear();
        // Replicas that are stopping end in this time.
        sleep(Duration::from_secs(30)).await;
        self.restart();
        sleep(FAILOVER).await;
        let leader = self.leader().expect("a replica leads");
        let crashed = self.replicas[leader].take().unwrap();
        let age = crashed.manager.lease_status().unwrap().age.unwrap();
        let renewed = Instant::now() - age;
        crashed.task.abort();
        let others = timeout(
            Duration::from_secs(600),
            self.ledger.works_other_than(crashed.run),
        );
        others.await.expect("another replica works");
        let took = renewed.elapsed();
        assert!(took <= FAILOVER, "{took:?}");
        for replica in self.replicas.iter().flatten() {
            replica.stop.cancel();
        }
        sleep(Duration::from_secs(20)).await;
        let lease = self.server.get(LEASES, "default", "shop").unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "", "{lease}");
        self.ledger.check();
    }
}

fn live(seed: u64) {
    let plan = Plan::of(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(plan.clone());
        for slot in 0..REPLICAS {
            sim.begin(slot);
        }
        for act in &plan.acts {
            sim.act(act).await;
        }
        sim.rest().await;
    });
}

// LEASE-1, LEASE-2, LEASE-3, LEASE-7, LEASE-8
#[test]
fn no_reconcile_of_a_new_leader_begins_before_the_last_one_of_the_old_leader_has_ended() {
    steersman_testenv::seeds::live(0..500, "cargo xtask seeds --of leaders --only", live);
}
