//! Handle: the shards of a manager, for health checks and people.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use steersman_api::clock;
use steersman_object::{ShardSlot, SlotSet};
use steersman_shards::{ShardMember, ShardStatus};

use super::Manager;
use crate::error::Error;
use crate::shard_membership::{RECORDER, ShardMembership};

/// The check of readiness of a replica that shares the work.
#[derive(Debug, Default)]
struct PartReadiness {
    /// Whether the replica has had its part, or has waited for it long enough.
    has_begun: bool,
    /// Since when the replica waits for former owners.
    waits_since: Option<Instant>,
}

/// How long a replica that waits for reconciles of others is not ready. After that a rollout goes on, which may bring the
/// release that ends these reconciles; the expiry of a Lease takes less.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Manager {
    /// Adds the membership in the group that shares the work, with its readiness check and its section of the
    /// diagnostics.
    pub(crate) fn add_member(&self, member: ShardMember) -> Result<(), Error> {
        let status = member.status();
        let (checked, open) = (status.clone(), member.gate().open());
        let readiness = Mutex::<PartReadiness>::default();
        self.add_ready_check("shards", move || {
            let mut readiness = readiness.lock();
            let checked = readiness.check(&checked.borrow(), &open.borrow(), clock::now());
            async { checked }
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

impl PartReadiness {
    /// Fails with the reason while a new replica does not work on its part, so that a rolling update waits for it. Later
    /// moves do not take a replica out of its Services, because its webhooks work without shards.
    fn check(&mut self, status: &ShardStatus, open: &SlotSet, now: Instant) -> Result<(), String> {
        let waits = !status.waits_for.is_empty();
        let since = self.waits_since.filter(|_| waits);
        self.waits_since = waits.then_some(since.unwrap_or(now));
        let waits_long = since.is_some_and(|since| now - since >= LONGEST_WAIT);
        let unready = unready(status, open).filter(|_| !self.has_begun && !waits_long);
        self.has_begun |= unready.is_none();
        unready.map_or(Ok(()), Err)
    }
}

/// Returns why a replica does not work on its part; `open` are the slots that it works on.
fn unready(status: &ShardStatus, open: &SlotSet) -> Option<String> {
    // SHARD-11: a rolling update must go on, because it ends the replicas that this one waits for. A replica that cannot
    // write its own Lease must not let it go on.
    if status.other_division.is_some() && status.is_renewed {
        return None;
    }
    let (owned, awaited) = (&status.owned, &status.awaited);
    if !status.waits_for.is_empty() {
        let others = status.waits_for.join(", ");
        return Some(format!(
            "slots {awaited} wait for {others}, until their reconciles of these slots have ended or their Leases have expired"
        ));
    }
    if !awaited.is_empty() {
        return Some(format!(
            "slots {awaited} are assigned to this replica, and it has not begun them"
        ));
    }
    // There are more members than slots.
    let is_spare = owned.is_empty() && status.members.len() > ShardSlot::COUNT;
    if status.is_renewed && (is_spare || !owned.is_empty() && open.is_superset(owned)) {
        return None;
    }
    let closed = owned.difference(open);
    Some(match &status.last_error {
        Some(error) => format!("this replica has no shards yet: {error}"),
        None if owned.is_empty() => {
            "this replica has no shards yet: the group has not assigned any to it".to_owned()
        }
        None => format!("the caches do not hold the objects of slots {closed} yet"),
    })
}

fn describe(status: &ShardStatus) -> Value {
    json!({
        "group": status.group,
        "member": status.member,
        "members": status.members,
        "generation": status.generation,
        "isRenewed": status.is_renewed,
        "division": status.division,
        "otherDivision": status.other_division,
        "owned": { "slots": status.owned.to_string(), "count": status.owned.len() },
        "awaited": { "slots": status.awaited.to_string(), "count": status.awaited.len() },
        "waitsFor": status.waits_for,
        "lastError": status.last_error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(status: &ShardStatus, open: SlotSet) -> String {
        unready(status, &open).unwrap_or_default()
    }

    #[test]
    fn a_replica_is_ready_when_it_works_on_its_part() {
        let mut status = ShardStatus::default();
        status.members = vec!["shop-a".to_owned(), "shop-b".to_owned()];
        status.generation = 2;
        status.is_renewed = true;
        let none = SlotSet::EMPTY;
        // The assignment that a new replica finds does not name it.
        assert!(
            why(&status, none).contains("has not assigned"),
            "{}",
            why(&status, none)
        );
        status.last_error = Some("403 Forbidden".to_owned());
        assert!(
            why(&status, none).ends_with("403 Forbidden"),
            "{}",
            why(&status, none)
        );
        status.last_error = None;
        let part: SlotSet = "0-127".parse().unwrap();
        status.awaited = part;
        assert!(
            why(&status, none).contains("0-127 are assigned"),
            "{}",
            why(&status, none)
        );
        status.waits_for = vec!["shop-a".to_owned()];
        assert!(
            why(&status, none).contains("0-127 wait for shop-a"),
            "{}",
            why(&status, none)
        );
        (status.owned, status.awaited, status.waits_for) = (part, none, Vec::new());
        assert!(
            why(&status, none).contains("caches"),
            "{}",
            why(&status, none)
        );
        assert_eq!(unready(&status, &part), None);
        status.is_renewed = false;
        assert!(unready(&status, &part).is_some());
        (status.owned, status.other_division) = (none, Some("name-00000000".to_owned()));
        assert!(unready(&status, &none).is_some());
        status.is_renewed = true;
        assert_eq!(unready(&status, &none), None);
    }

    #[test]
    fn a_replica_that_was_ready_or_waits_long_is_ready() {
        let now = clock::now();
        let mut waiting = ShardStatus::default();
        waiting.awaited = "0-127".parse().unwrap();
        waiting.waits_for = vec!["shop-a".to_owned()];
        let mut readiness = PartReadiness::default();
        let mut check = |status: &ShardStatus, at| readiness.check(status, &SlotSet::EMPTY, at);
        assert!(check(&waiting, now).is_err());
        assert!(check(&waiting, now + LONGEST_WAIT / 2).is_err());
        assert!(check(&ShardStatus::default(), now + LONGEST_WAIT / 2).is_err());
        assert!(
            check(&waiting, now + LONGEST_WAIT).is_err(),
            "the wait began anew"
        );
        assert_eq!(check(&waiting, now + LONGEST_WAIT * 2), Ok(()));
        assert_eq!(
            check(&ShardStatus::default(), now + LONGEST_WAIT * 2),
            Ok(())
        );
    }
}
