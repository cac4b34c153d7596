//! Handle: the shards of a manager, for health checks and people.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use steersman_shards::{ShardMember, ShardStatus};

use super::Manager;
use crate::error::Error;
use crate::shard_membership::{RECORDER, ShardMembership};

impl Manager {
    /// Adds the membership in the group that shares the work, with its readiness check and its section of the
    /// diagnostics.
    pub(crate) fn add_member(&self, member: ShardMember) -> Result<(), Error> {
        let status = member.status();
        let checked = status.clone();
        let has_begun = Arc::new(AtomicBool::new(false));
        // A rolling update goes on when the new replica has its part. Later moves do not take a replica out of its
        // Services, because its webhooks and probes work without shards.
        self.add_ready_check("shards", move || {
            let unready = unready(&checked.borrow(), has_begun.load(Ordering::Relaxed));
            if unready.is_none() {
                has_begun.store(true, Ordering::Relaxed);
            }
            async { unready.map_or(Ok(()), Err) }
        })?;
        self.diagnostics()
            .add("shards", move || describe(&status.borrow()));
        self.add(ShardMembership {
            member,
            cache: self.cache().clone(),
            client: self.client().clone(),
            recorder: self.events(RECORDER),
        })
    }
}

/// Returns why a replica does not work on its part yet. `has_begun` is whether it has worked before.
fn unready(status: &ShardStatus, has_begun: bool) -> Option<String> {
    if has_begun || (status.is_renewed && status.generation > 0 && status.awaited.is_empty()) {
        return None;
    }
    if !status.waits_for.is_empty() {
        let others = status.waits_for.join(", ");
        return Some(format!(
            "slots {} wait for {others}, until their reconciles of these slots have ended or their Leases have expired",
            status.awaited
        ));
    }
    let cause = status.last_error.clone();
    Some(match cause {
        Some(error) => format!("this replica has no shards yet: {error}"),
        None => "this replica has no shards yet: the group has not assigned them".to_owned(),
    })
}

fn describe(status: &ShardStatus) -> Value {
    json!({
        "group": status.group,
        "member": status.member,
        "members": status.members,
        "generation": status.generation,
        "isRenewed": status.is_renewed,
        "owned": { "slots": status.owned.to_string(), "count": status.owned.len() },
        "awaited": { "slots": status.awaited.to_string(), "count": status.awaited.len() },
        "waitsFor": status.waits_for,
        "lastError": status.last_error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_is_ready_when_it_has_its_part_for_the_first_time() {
        let mut status = ShardStatus::default();
        let why = |status: &ShardStatus| unready(status, false).unwrap_or_default();
        assert!(
            why(&status).contains("has not assigned"),
            "{}",
            why(&status)
        );
        status.last_error = Some("403 Forbidden".to_owned());
        assert!(why(&status).ends_with("403 Forbidden"), "{}", why(&status));
        status.is_renewed = true;
        status.generation = 2;
        assert_eq!(
            unready(&status, false),
            None,
            "a replica without slots is ready, too"
        );
        status.awaited = "0-127".parse().unwrap();
        status.waits_for = vec!["shop-a".to_owned()];
        assert!(
            why(&status).contains("slots 0-127 wait for shop-a"),
            "{}",
            why(&status)
        );
        assert_eq!(unready(&status, true), None);
    }
}
