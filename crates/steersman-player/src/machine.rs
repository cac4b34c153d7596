//! Machine: the player: reads the changes of the store, looks at the objects that they concern, and
//! says when to look again.

use std::collections::BTreeSet;
use std::time::Duration;

use steersman_registry::Registry;

use super::actions::world::{Manners, Notes, Now, World};
use super::options::Played;
use super::state::facts::{Key, Kind};
use super::state::kinds::Kinds;
use super::state::view::View;
use super::state::work_queue::WorkQueue;

/// When the player needs its next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// At once, after other tasks had access to the store.
    Again,
    /// At this time of the player's clock, or at the next change.
    At(Duration),
    /// At the next change.
    Change,
}

/// The state of the player.
#[derive(Debug)]
pub(super) struct Machine {
    played: Played,
    kinds: Option<Kinds>,
    view: View,
    work_queue: WorkQueue,
    timers: BTreeSet<(Duration, Key)>,
    notes: Notes,
    has_nodes: bool,
    /// The player's clock at its last turn.
    tick: Duration,
}

impl Machine {
    pub(super) fn new(played: Played) -> Self {
        Self {
            played,
            kinds: None,
            view: View::default(),
            work_queue: WorkQueue::default(),
            timers: BTreeSet::new(),
            notes: Notes::default(),
            has_nodes: false,
            tick: Duration::ZERO,
        }
    }

    /// Returns the player's clock at its last turn. The clock continues from there when another
    /// task takes over, so that a pause makes no wait longer.
    pub(super) fn tick(&self) -> Duration {
        self.tick
    }

    /// Records the player's clock.
    pub(super) fn note(&mut self, tick: Duration) {
        self.tick = self.tick.max(tick);
    }

    /// Schedules a look at every Pod, because troubles or the speed changed.
    pub(super) fn reconsider_pods(&mut self) {
        for (namespace, name) in self.view.pods.keys() {
            self.work_queue.add(Key::new(Kind::Pod, namespace, name));
        }
    }

    /// Does what is due, with about `budget` writes at most (PLAY-7).
    pub(super) fn turn(
        &mut self,
        registry: &mut Registry,
        manners: &Manners,
        now: Now,
        budget: usize,
    ) -> Next {
        self.note(now.tick);
        let kinds = self.kinds.take().or_else(|| Kinds::of_registry(registry));
        let Some(kinds) = kinds else {
            return Next::Change;
        };
        let next = self.play(registry, &kinds, manners, now, budget);
        self.kinds = Some(kinds);
        next
    }

    fn play(
        &mut self,
        registry: &mut Registry,
        kinds: &Kinds,
        manners: &Manners,
        now: Now,
        budget: usize,
    ) -> Next {
        let mut writes = 0;
        let mut seen = None;
        while writes < budget {
            // PLAY-2: the view takes in the player's own writes before the player looks at anything
            // else.
            if seen != Some(registry.revision()) {
                seen = Some(registry.revision());
                self.view
                    .absorb(registry, kinds, now.tick, &mut self.work_queue);
            }
            self.ring(now.tick);
            let key = self.work_queue.pop();
            if key.is_none() && (self.has_nodes || !self.played.pods) {
                break;
            }
            let mut world = World {
                registry: &mut *registry,
                view: &self.view,
                kinds,
                manners,
                work_queue: &mut self.work_queue,
                timers: &mut self.timers,
                notes: &mut self.notes,
                writes_events: self.played.events,
                binding: self.played.volumes,
                now,
                acting: key.as_ref().map_or(Kind::Node, |key| key.kind),
                writes: 0,
                room: budget - writes,
            };
            if !self.has_nodes && self.played.pods {
                self.has_nodes = true;
                world.make_nodes(self.played.nodes);
            }
            if let Some(key) = key {
                look(&mut world, &self.played, &key);
                if key.kind == Kind::Pod && !world.exists(&key) {
                    world.notes.hindered.remove(&key);
                    world.notes.stopping.remove(&key);
                }
                world.forget_events();
            }
            writes += world.writes;
        }
        if writes >= budget || !self.work_queue.is_empty() {
            return Next::Again;
        }
        self.timers
            .first()
            .map_or(Next::Change, |(at, _)| Next::At(*at))
    }

    /// Moves the objects that are due from the timers to the work queue.
    fn ring(&mut self, tick: Duration) {
        while let Some((at, _)) = self.timers.first()
            && *at <= tick
        {
            if let Some((_, key)) = self.timers.pop_first() {
                self.work_queue.add(key);
            }
        }
    }
}

fn look(world: &mut World<'_>, played: &Played, key: &Key) {
    match key.kind {
        Kind::Node => {}
        Kind::Pod => {
            if played.workloads {
                world.free_pod_of_lost_job(key);
            }
            if played.pods {
                world.pod(key);
            }
        }
        Kind::Service if played.endpoints => world.service(key),
        Kind::Claim if played.volumes => world.volume_claim(key),
        Kind::Volume if played.volumes => world.volume(key),
        Kind::Service | Kind::Claim | Kind::Volume | Kind::Class => {}
        _ if !played.workloads => {}
        Kind::ReplicaSet => world.replica_set(key),
        Kind::StatefulSet => world.stateful_set(key),
        Kind::DaemonSet => world.daemon_set(key),
        Kind::Job => world.job(key),
        Kind::CronJob => world.cron_job(key),
        Kind::Budget => world.budget(key),
        Kind::Deployment => world.deployment(key),
    }
}

#[cfg(test)]
mod tests;
