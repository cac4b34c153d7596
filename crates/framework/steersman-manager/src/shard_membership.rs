//! Driver: the membership of this replica in a group that shares the work, as a runnable.

use std::time::Duration;

use steersman_cache::Cache;
use steersman_cache::internal::CacheInternals as _;
use steersman_client::Client;
use steersman_object::SlotSet;
use steersman_shards::ShardMember;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::error::BoxError;
use crate::order::Group;
use crate::runnable::{RunContext, Runnable};

/// How long the release of the shards waits for writes in flight.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// The pause between two looks at the slots that the caches still hold.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Holds the shards of this replica from before the caches start until after the controllers have ended.
pub(crate) struct ShardMembership {
    pub(crate) member: ShardMember,
    pub(crate) cache: Cache,
    pub(crate) client: Client,
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
        let mut status = self.member.status();
        let ended = async { while status.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            () = context.cancelled() => {}
            // The membership ends only when it is told to, or by a panic.
            () = ended => return Err("the membership in the group of the shards has ended".into()),
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
        Ok(())
    }
}
