//! Seeded simulations: storms of changes over a controller with reconciles that fail, panic, hang and write, which is
//! stopped and started again. Never two runs of a key at once, no lost event, no starvation, bounded backoff, and a
//! clean stop.
//!
//! `cargo xtask seeds --of controllers` runs any number of seeds, or repeats one.

mod ledger;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use prometheus::Registry;
use serde_json::json;
use steersman_api::Encoding;
use steersman_controller::{
    Action, Context, Controller, ControllerError, Error, Priority, Reconciler, Request, limiter,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use self::ledger::{Ended, Ledger};
use self::plan::{Act, Behaviour, Limiter, Plan};
use crate::world::World;

/// The time in which every retry and timer of a storm comes to its end.
const CALM: Duration = Duration::from_secs(600);

/// A reconciler that behaves in each run as the plan says, and records the state that it read.
struct Stormy {
    ledger: Arc<Ledger>,
    plan: Arc<Plan>,
}

struct Sim {
    world: World,
    plan: Arc<Plan>,
    ledger: Arc<Ledger>,
    running: JoinHandle<Result<(), ControllerError>>,
    round: u64,
}

// === impl Stormy ===

impl Reconciler for Stormy {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let name = request.key.name();
        let run = self.ledger.begin(name, ctx);
        let object = ctx.client().get_opt::<ConfigMap>(&request.key).await?;
        let child = ctx.client().get_opt::<Secret>(&request.key).await?;
        run.saw([
            object
                .as_ref()
                .and_then(|object| object.metadata.resource_version.clone()),
            child
                .as_ref()
                .and_then(|child| child.metadata.resource_version.clone()),
        ]);
        let behaviour = match self.ledger.is_calm() {
            true => Behaviour::Done,
            false => self.plan.behaviour(run.number()),
        };
        let ended = self.behave(ctx, behaviour, object.as_deref()).await;
        run.ended(match &ended {
            Ok(_) => Ended::Succeeded,
            Err(error) if error.is_terminal() => Ended::Terminal,
            Err(_) => Ended::Failed,
        });
        ended
    }
}

impl Stormy {
    async fn behave(
        &self,
        ctx: &Context,
        behaviour: Behaviour,
        object: Option<&ConfigMap>,
    ) -> Result<Action, Error> {
        match behaviour {
            Behaviour::Done => Ok(Action::done()),
            Behaviour::After(millis, priority) => {
                let action = Action::requeue_after(Duration::from_millis(millis));
                Ok(match priority {
                    Some(priority) => action.priority(Priority::new(priority)),
                    None => action,
                })
            }
            Behaviour::At(seconds) => {
                Ok(Action::requeue_at(ctx.now() + Duration::from_secs(seconds)))
            }
            Behaviour::Sleep(millis, fails) => {
                tokio::time::sleep(Duration::from_millis(millis)).await;
                match fails {
                    true => Err(Error::msg("slow and broken")),
                    false => Ok(Action::done()),
                }
            }
            Behaviour::Write(fails) => {
                if let Some(object) = object {
                    let write = |object: &mut ConfigMap| {
                        let data = object.data.get_or_insert_default();
                        data.insert("written".to_owned(), ctx.reconcile_id().to_string());
                    };
                    // The object may be deleted meanwhile.
                    let _ = ctx.client().modify(object, write).await;
                }
                match fails {
                    true => Err(Error::msg("broken after a write")),
                    false => Ok(Action::done()),
                }
            }
            Behaviour::Fail => Err(Error::msg("broken")),
            Behaviour::Terminal => Err(Error::msg("broken for good").terminal()),
            // A panic without the message of the panic hook.
            Behaviour::Panic => std::panic::resume_unwind(Box::new("on purpose")),
            Behaviour::Hang(listens) => {
                if listens {
                    ctx.cancelled().await;
                    return Err(Error::msg("cancelled"));
                }
                std::future::pending().await
            }
        }
    }
}

// === impl Sim ===

impl Sim {
    fn new(seed: u64) -> Self {
        let plan = Arc::new(Plan::of(seed));
        let ledger = Arc::new(Ledger::new(&plan));
        let mut world = World::encoded(Encoding::ALL[seed as usize % 2]);
        world.grace = Duration::from_millis(plan.grace);
        for name in 0..plan.objects {
            put(&world, "configmaps", &format!("o{name}"), 0);
        }
        let running = start(&mut world, &plan, &ledger);
        Self {
            world,
            plan,
            ledger,
            running,
            round: 0,
        }
    }

    async fn act(&mut self, act: &Act) {
        self.round += 1;
        match act {
            Act::Put(resource, name) => put(&self.world, resource, name, self.round),
            Act::Delete(resource, name) => {
                // The object may not exist.
                let _ = self.world.server.delete(resource, "default", name);
            }
            Act::Burst(count) => {
                for number in 0..*count {
                    let name = format!("o{}", number % self.plan.objects);
                    put(&self.world, "configmaps", &name, self.round * 1000 + number);
                }
            }
            Act::Sleep(millis) => tokio::time::sleep(Duration::from_millis(*millis)).await,
            Act::Disrupt(disruption) => disruption.inflict(&self.world.server),
            Act::Restart => {
                self.stop().await;
                self.world.registry = Registry::new();
                self.world.cancel = CancellationToken::new();
                self.running = start(&mut self.world, &self.plan, &self.ledger);
            }
        }
    }

    /// Stops the controller: no run begins after that, and none goes on after its end.
    async fn stop(&mut self) {
        self.world.cancel.cancel();
        self.ledger.stops();
        match (&mut self.running).await.unwrap() {
            Ok(()) | Err(ControllerError::StillRunning { .. }) => {}
            Err(error) => panic!("the controller failed: {error}"),
        }
        self.ledger.has_stopped();
    }

    async fn check(mut self) {
        self.world.server.faults().clear();
        self.world.server.faults().resume_watches();
        self.ledger.calms_down();
        tokio::time::sleep(CALM).await;
        for name in self.plan.names() {
            let version = |resource: &str| {
                let object = self.world.server.get(resource, "default", &name)?;
                object["metadata"]["resourceVersion"]
                    .as_str()
                    .map(str::to_owned)
            };
            let state = [version("configmaps"), version("secrets")];
            self.ledger.check_last(&name, &state);
        }
        self.stop().await;
        self.ledger.check(&self.plan);
    }
}

fn start(
    world: &mut World,
    plan: &Arc<Plan>,
    ledger: &Arc<Ledger>,
) -> JoinHandle<Result<(), ControllerError>> {
    ledger.starts();
    let mut builder = Controller::builder::<ConfigMap>()
        .owns::<Secret>()
        .max_concurrent_reconciles(plan.workers)
        .initial_priority(Priority::new(plan.initial_priority))
        .lower_priority_share(plan.share)
        .deadline(Duration::from_millis(plan.deadline))
        .deadline_grace(Duration::from_millis(plan.deadline_grace));
    if let Some(retries) = plan.max_retries {
        builder = builder.max_retries(retries);
    }
    if let Some((runs, millis)) = plan.at_most {
        builder = builder.at_most(runs, Duration::from_millis(millis));
    }
    let millis = Duration::from_millis;
    builder = match plan.limiter {
        Limiter::Exponential(base, cap) => {
            builder.rate_limiter(limiter::Exponential::new(millis(base), millis(cap)))
        }
        Limiter::FastSlow(fast, slow, count) => {
            builder.rate_limiter(limiter::FastSlow::new(millis(fast), millis(slow), count))
        }
    };
    let stormy = Stormy {
        ledger: Arc::clone(ledger),
        plan: Arc::clone(plan),
    };
    world.start(builder.build(stormy).unwrap())
}

/// Creates or changes an object. A Secret is owned by the ConfigMap of its name.
fn put(world: &World, resource: &str, name: &str, round: u64) {
    let value = json!({"metadata": {"annotations": {"round": round.to_string()}}});
    let patched = world.server.merge_patch(resource, "default", name, &value);
    if patched.is_ok() {
        return;
    }
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        controller: Some(true),
        ..OwnerReference::default()
    };
    let (kind, owners) = match resource {
        "secrets" => ("Secret", json!([owner])),
        _ => ("ConfigMap", json!([])),
    };
    let metadata = json!({"name": name, "namespace": "default", "ownerReferences": owners});
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata});
    world.server.create(object).unwrap();
}

fn live(seed: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut sim = Sim::new(seed);
        let plan = Arc::clone(&sim.plan);
        for act in &plan.acts {
            sim.act(act).await;
        }
        sim.check().await;
    });
}

// WQ-1, WQ-2, WQ-3, WQ-5, WQ-11, CTRL-1, CTRL-2, CTRL-20, CTRL-21
#[test]
fn every_storm_ends_with_every_key_reconciled_in_its_last_state() {
    steersman_testenv::seeds::live(0..500, "cargo xtask seeds --of controllers --only", live);
}
