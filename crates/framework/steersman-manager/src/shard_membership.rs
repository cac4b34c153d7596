//! Driver: the membership of this replica in a group that shares the work, as a runnable.

use std::time::Duration;

use steersman_cache::Cache;
use steersman_cache::internal::CacheInternals as _;
use steersman_client::Client;
use steersman_events::EventRecorder;
use steersman_object::{ObjectKey, ShardSlot, SlotSet};
use steersman_shards::{ShardMember, ShardStatus};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::error::BoxError;
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};
use crate::supervisor::campaign::lease_of_event;

/// How long the release of the shards waits for writes in flight.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The pause between two looks at the slots that the caches still hold.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// The name under which Events about the shards are recorded.
pub(crate) const RECORDER: &str = "shards";

/// The reason and the action of these Events.
const REASON: &str = "ShardsMoved";
const ACTION: &str = "MoveShards";

/// Holds the shards of this replica from before the caches start until after the controllers have ended.
pub(crate) struct ShardMembership {
    pub(crate) member: ShardMember,
    pub(crate) cache: Cache,
    pub(crate) client: Client,
    pub(crate) recorder: EventRecorder,
}

/// Records an Event for each move of slots to and from this replica.
struct MoveRecorder {
    group: ObjectKey,
    status: watch::Receiver<ShardStatus>,
    recorder: EventRecorder,
    /// The slots of this replica at the last record.
    owned: SlotSet,
}

impl Runnable for ShardMembership {
    fn name(&self) -> String {
        "shards".to_owned()
    }

    fn group(&self) -> Group {
        Group::Webhooks
    }

    async fn run(mut self, context: RunContext) -> Result<(), BoxError> {
        self.member.start()?;
        let gate = self.member.gate();
        let release = |slots: SlotSet| {
            let cache = self.cache.clone();
            async move {
                // An informer releases slots when its task runs next, and has no other sign of it.
                while !slots.is_superset(&cache.shards_held()) {
                    sleep(BETWEEN_LOOKS).await;
                }
            }
        };
        let load = |slots: SlotSet| {
            let cache = self.cache.clone();
            async move { cache.wait_for_shards(&slots).await }
        };
        let mut moves = MoveRecorder {
            group: self.member.group().clone(),
            status: self.member.status(),
            recorder: self.recorder,
            owned: SlotSet::EMPTY,
        };
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            // The membership ends only when it is told to, or by a panic.
            () = moves.follow() => return Err("the membership in the group of the shards has ended".into()),
            () = gate.keep_loaded(release, load) => {}
        }
        // SHARD-1: a write outlives the reconcile that sent it.
        if timeout(LAST_WRITES, self.client.writes_finished())
            .await
            .is_err()
        {
            // The Lease expires, as after a crash.
            warn!("a write is still in flight, so the shards of this replica are not released");
            return Ok(());
        }
        if !self.member.leave().await {
            warn!(
                "the shards of this replica were not released in time: others wait for the expiry of its Lease"
            );
        }
        moves.record();
        Ok(())
    }
}

impl MoveRecorder {
    /// Records each move until the membership ends.
    async fn follow(&mut self) {
        while self.status.changed().await.is_ok() {
            self.record();
        }
    }

    fn record(&mut self) {
        let status = self.status.borrow_and_update().clone();
        let gained = status.owned.difference(&self.owned).len();
        let released = self.owned.difference(&status.owned).len();
        self.owned = status.owned;
        if gained == 0 && released == 0 {
            return;
        }
        let lease = lease_of_event(&self.group, status.group_uid);
        let note = format_args!(
            "{} gained {gained} and released {released} of {} slots, and owns {}: generation {}, {} members",
            status.member,
            ShardSlot::COUNT,
            status.owned.len(),
            status.generation,
            status.members.len(),
        );
        self.recorder.normal(&lease, REASON, ACTION, note);
    }
}
