//! Machine: the simulator: reads the changes of the store, processes the objects that they concern,
//! and returns when its next turn is due.

use std::collections::BTreeSet;
use std::time::Duration;

use steersman_registry::Registry;

use super::actions::turn_context::{PlayerMemory, PlayerSettings, TurnContext, TurnTime};
use super::options::Played;
use super::state::cluster_facts::ClusterFacts;
use super::state::facts::{SimulatedKey, SimulatedKind};
use super::state::kinds::Kinds;
use super::state::work_queue::WorkQueue;

/// When the simulator needs its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextTurn {
    /// At once, after other tasks had access to the store.
    Again,
    /// At this time of the simulator's clock, or at the next change.
    At(Duration),
    /// At the next change.
    Change,
}

/// The state of the simulator.
#[derive(Debug)]
pub(super) struct Machine {
    played: Played,
    kinds: Option<Kinds>,
    cluster: ClusterFacts,
    work_queue: WorkQueue,
    timers: BTreeSet<(Duration, SimulatedKey)>,
    memory: PlayerMemory,
    has_nodes: bool,
    /// The simulator's clock at its last turn.
    tick: Duration,
}

impl Machine {
    pub(super) fn new(played: Played) -> Self {
        Self {
            played,
            kinds: None,
            cluster: ClusterFacts::default(),
            work_queue: WorkQueue::default(),
            timers: BTreeSet::new(),
            memory: PlayerMemory::default(),
            has_nodes: false,
            tick: Duration::ZERO,
        }
    }

    /// Returns the simulator's clock at its last turn. The clock continues from there when another
    /// task takes over, so that a pause makes no wait longer.
    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Records the simulator's clock.
    pub(super) fn advance_clock(&mut self, tick: Duration) {
        self.tick = self.tick.max(tick);
    }

    /// Queues every Pod, because failures or the speed changed.
    pub(super) fn reconsider_pods(&mut self) {
        for (namespace, name) in self.cluster.pods.keys() {
            self.work_queue
                .add(SimulatedKey::new(SimulatedKind::Pod, namespace, name));
        }
    }

    /// Does what is due, with about `budget` writes at most (PLAY-7).
    pub(super) fn turn(
        &mut self,
        registry: &mut Registry,
        settings: &PlayerSettings,
        now: TurnTime,
        budget: usize,
    ) -> NextTurn {
        self.advance_clock(now.tick);
        let kinds = self.kinds.take().or_else(|| Kinds::of_registry(registry));
        let Some(kinds) = kinds else {
            return NextTurn::Change;
        };
        let next = self.play(registry, &kinds, settings, now, budget);
        self.kinds = Some(kinds);
        next
    }

    fn play(
        &mut self,
        registry: &mut Registry,
        kinds: &Kinds,
        settings: &PlayerSettings,
        now: TurnTime,
        budget: usize,
    ) -> NextTurn {
        let mut writes = 0;
        let mut seen = None;
        while writes < budget {
            // PLAY-2: the facts take in the simulator's own writes before the simulator looks at anything
            // else.
            if seen != Some(registry.revision()) {
                seen = Some(registry.revision());
                self.cluster
                    .read_changes(registry, kinds, now.tick, &mut self.work_queue);
            }
            self.queue_due_objects(now.tick);
            let key = self.work_queue.pop();
            if key.is_none() && (self.has_nodes || !self.played.pods) {
                break;
            }
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
                acting: key.as_ref().map_or(SimulatedKind::Node, |key| key.kind),
                writes: 0,
                write_limit: budget - writes,
            };
            if !self.has_nodes && self.played.pods {
                self.has_nodes = true;
                context.create_nodes(self.played.nodes);
            }
            if let Some(key) = key {
                reconcile(&mut context, &self.played, &key);
                if key.kind == SimulatedKind::Pod && !context.exists(&key) {
                    context.memory.made_unready.remove(&key);
                    context.memory.stopping.remove(&key);
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

    /// Moves the objects that are due from the timers to the work queue.
    fn queue_due_objects(&mut self, tick: Duration) {
        while let Some((at, _)) = self.timers.first()
            && *at <= tick
        {
            if let Some((_, key)) = self.timers.pop_first() {
                self.work_queue.add(key);
            }
        }
    }
}

fn reconcile(context: &mut TurnContext<'_>, played: &Played, key: &SimulatedKey) {
    match key.kind {
        SimulatedKind::Node => {}
        SimulatedKind::Pod => {
            if played.workloads {
                context.remove_finalizer_of_lost_job(key);
            }
            if played.pods {
                context.reconcile_pod(key);
            }
        }
        SimulatedKind::Service if played.endpoints => context.reconcile_service(key),
        SimulatedKind::Claim if played.volumes => context.reconcile_volume_claim(key),
        SimulatedKind::Volume if played.volumes => context.reconcile_volume(key),
        SimulatedKind::Service
        | SimulatedKind::Claim
        | SimulatedKind::Volume
        | SimulatedKind::Class => {}
        _ if !played.workloads => {}
        SimulatedKind::ReplicaSet => context.reconcile_replica_set(key),
        SimulatedKind::StatefulSet => context.reconcile_stateful_set(key),
        SimulatedKind::DaemonSet => context.reconcile_daemon_set(key),
        SimulatedKind::Job => context.reconcile_job(key),
        SimulatedKind::CronJob => context.reconcile_cron_job(key),
        SimulatedKind::Budget => context.reconcile_budget(key),
        SimulatedKind::Deployment => context.reconcile_deployment(key),
    }
}

#[cfg(test)]
mod tests;
