//! Machine: one turn of the simulator, with the registry locked: reads the changes of the store, reconciles the objects
//! that they affect, and returns when the next turn is due.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use steersman_registry::Registry;

use super::actions::turn_context::{PlayerMemory, PlayerSettings, TurnContext, TurnTime};
use super::options::Played;
use super::state::cluster_facts::{ClusterFacts, FactsUpdate};
use super::state::facts::{SimulatedKey, SimulatedKind};
use super::state::kinds::Kinds;
use super::state::work_queue::WorkQueue;

/// When the driving task runs the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextTurn {
    /// At once, because objects are left in the queue; requests that wait for the registry come first.
    Again,
    /// At this time on the simulator's clock, or earlier if an object changes.
    At(Duration),
    /// When an object changes; no timer is set.
    Change,
}

#[derive(Debug, Default)]
pub(super) struct Machine {
    played: Played,
    kinds: Option<Arc<Kinds>>,
    cluster: ClusterFacts,
    work_queue: WorkQueue,
    timers: BTreeSet<(Duration, SimulatedKey)>,
    memory: PlayerMemory,
    has_nodes: bool,
    /// The time on the simulator's clock at the last turn, or when the last driving task ended.
    tick: Duration,
}

impl Machine {
    pub(super) fn new(played: Played) -> Self {
        Self {
            played,
            ..Self::default()
        }
    }

    /// Returns the time on the simulator's clock from which the next driving task continues.
    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    pub(super) fn advance_clock(&mut self, tick: Duration) {
        self.tick = self.tick.max(tick);
    }

    /// Queues every Pod, because the requested failures or the speed changed.
    pub(super) fn reconsider_pods(&mut self) {
        for (namespace, name) in self.cluster.pods.keys() {
            let key = SimulatedKey::new(SimulatedKind::Pod, namespace, name);
            self.work_queue.add(key);
        }
    }

    /// Reconciles the queued objects that are due, until about `budget` writes are made (PLAY-7).
    pub(super) fn turn(
        &mut self,
        registry: &mut Registry,
        settings: &PlayerSettings,
        now: TurnTime,
        budget: usize,
    ) -> NextTurn {
        self.advance_clock(now.tick);
        if self.kinds.is_none() {
            self.kinds = Kinds::of_registry(registry).map(Arc::new);
        }
        let Some(kinds) = self.kinds.clone() else {
            return NextTurn::Change;
        };
        let kinds = &*kinds;
        let mut writes = 0;
        let mut seen = None;
        while writes < budget {
            // Reads all earlier writes first, so that each simulated controller sees its own last writes (PLAY-2).
            if seen != Some(registry.revision()) {
                seen = Some(registry.revision());
                let mut update = FactsUpdate {
                    facts: &mut self.cluster,
                    work_queue: &mut self.work_queue,
                    registry,
                    kinds,
                    tick: now.tick,
                };
                update.read_changes();
            }
            self.queue_due_objects(now.tick);
            let key = self.work_queue.pop();
            if key.is_none() && (self.has_nodes || !self.played.pods) {
                break;
            }
            let nodes = SimulatedKey::first(SimulatedKind::Node, "");
            let mut context = TurnContext {
                registry: &mut *registry,
                cluster: &self.cluster,
                kinds,
                settings,
                work_queue: &mut self.work_queue,
                timers: &mut self.timers,
                memory: &mut self.memory,
                writes_events: self.played.events,
                binds_volumes: self.played.volumes,
                now,
                key: key.as_ref().unwrap_or(&nodes),
                writes: 0,
                write_limit: budget - writes,
            };
            if !self.has_nodes && self.played.pods {
                self.has_nodes = true;
                context.create_nodes(self.played.nodes);
            }
            if let Some(key) = &key {
                reconcile(&mut context, &self.played);
                let resource = context.kinds.of(key.kind);
                let object = context.stored(resource, &key.namespace, &key.name);
                if key.kind == SimulatedKind::Pod && object.is_none() {
                    context.memory.made_unready.remove(key);
                    context.memory.stopping.remove(key);
                }
                context.delete_old_events();
            }
            writes += context.writes;
        }
        if writes >= budget || !self.work_queue.is_empty() {
            return NextTurn::Again;
        }
        self.timers
            .first()
            .map_or(NextTurn::Change, |(at, _)| NextTurn::At(*at))
    }

    fn queue_due_objects(&mut self, tick: Duration) {
        while self.timers.first().is_some_and(|(at, _)| *at <= tick)
            && let Some((_, key)) = self.timers.pop_first()
        {
            self.work_queue.add(key);
        }
    }
}

/// Reconciles the object of `context` with the controller of its kind. A deleted object matters only to the controllers
/// of Services and PersistentVolumeClaims.
fn reconcile(context: &mut TurnContext<'_>, played: &Played) {
    let object = context.object();
    match (context.key.kind, &object) {
        (SimulatedKind::Service, service) if played.endpoints => {
            context.reconcile_service(service.as_deref());
        }
        (SimulatedKind::Claim, claim) if played.volumes => {
            context.reconcile_volume_claim(claim.as_deref());
        }
        (SimulatedKind::Volume, Some(volume)) if played.volumes => context.reconcile_volume(volume),
        (SimulatedKind::Pod, Some(pod)) => {
            if played.workloads {
                context.remove_finalizer_of_lost_job(pod);
            }
            if played.pods {
                context.reconcile_pod();
            }
        }
        (kind, Some(object)) if played.workloads => match kind {
            SimulatedKind::ReplicaSet => context.reconcile_replica_set(object),
            SimulatedKind::StatefulSet => context.reconcile_stateful_set(object),
            SimulatedKind::DaemonSet => context.reconcile_daemon_set(object),
            SimulatedKind::Job => context.reconcile_job(object),
            SimulatedKind::CronJob => context.reconcile_cron_job(object),
            SimulatedKind::Budget => context.reconcile_budget(object),
            SimulatedKind::Deployment => context.reconcile_deployment(object),
            _ => {}
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests;
