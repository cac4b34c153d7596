//! Machine: what the replies to a member's requests mean for its requests, and for the slots that it works on.

use std::time::{Duration, Instant};

use steersman_object::SlotSet;

use super::{MemberMachine, MemberStage, RenewReply};
use crate::assigner::GroupView;
use crate::record::{GroupSnapshot, Obeyed, Standing};

impl MemberMachine {
    pub(crate) fn handle_renewed(&mut self, reply: RenewReply, now: Instant) {
        let Some((sent, content)) = self.renewal.sent.take() else {
            return;
        };
        // A late reply does not undo a loss.
        self.check_deadline(now);
        self.renewal.replied = Some(now);
        self.renewal.has_failed = !matches!(reply, RenewReply::Renewed(_));
        match reply {
            RenewReply::Renewed(version) => {
                self.renewal.version = Some(version);
                self.renewal.renewed = Some(sent);
                self.stop_by = self.deadline();
                self.renewal.next = sent + self.timing.retry_period;
                if content.standing == Standing::Released {
                    self.stage = MemberStage::Ended;
                }
                self.renewal.written = content;
                if !self.is_current && self.current_from.is_none() {
                    // SHARD-3: only a list after this reply shows whether the slots have other owners by now.
                    self.current_from = Some(now);
                    self.list.has_notice = true;
                }
            }
            RenewReply::Gone => {
                self.renewal.version = None;
                self.renewal.renewed = None;
                self.renewal.next = now;
                self.lose();
            }
            RenewReply::Exists(version) => {
                self.renewal.version = Some(version);
                self.renewal.next = now;
            }
            RenewReply::Outdated => {
                self.list.has_notice = true;
                self.renewal.next = now + self.pause();
            }
            RenewReply::Failed => {
                self.list.has_notice |= self.renewal.version.is_none();
                self.renewal.next = now + self.pause();
            }
        }
        self.check_deadline(now);
    }

    /// Returns the pause after a failure: half a retry period to one.
    fn pause(&mut self) -> Duration {
        self.timing.failure_pause(self.jitter.fraction())
    }

    /// Handles the Leases of the group at one revision; `None` if the list has failed.
    pub(crate) fn handle_listed(&mut self, snapshot: Option<GroupSnapshot>, now: Instant) {
        let Some(sent) = self.list.sent.take() else {
            return;
        };
        let Some(snapshot) = snapshot else {
            self.list.next = now + self.pause();
            return;
        };
        self.list.next = now + self.timing.retry_period;
        self.write.may_write = true;
        self.sightings.note(&snapshot, sent, now);
        self.snapshot = snapshot;
        // A list that was sent before the last reply may show an older version than the reply. A renewal without a reply
        // may have been executed.
        let is_newer = self.renewal.replied.is_none_or(|replied| replied <= sent);
        if self.renewal.sent.is_none() && is_newer {
            let own = self.snapshot.members.get(&self.name);
            self.renewal.version = own.map(|own| own.version.clone());
        }
        self.note_group(now);
        self.begin_slots();
        let assignment = self.snapshot.group.as_ref().map(|group| &group.assignment);
        let is_readable = matches!(assignment, Some(Ok(_)));
        // SHARD-1: after a loss, only an assignment shows whether the slots have other owners by now. A member that has
        // not lost its Lease works on without one, because the next one names it as a former owner.
        if self.current_from.is_some_and(|from| from <= sent) && is_readable {
            self.is_current = true;
        }
        self.check_deadline(now);
    }

    /// Notes the Lease of the group, and all members that its assignment names.
    fn note_group(&mut self, now: Instant) {
        let lease = self.timing.lease_duration;
        let Some(group) = &self.snapshot.group else {
            self.group_seen = None;
            self.given.clear();
            self.sightings.forget(lease, |_| false);
            return;
        };
        let seen = self.group_seen.take().filter(|(uid, _)| *uid == group.uid);
        if seen.is_none() {
            self.given.clear();
        }
        self.group_seen = Some(seen.unwrap_or_else(|| (group.uid.clone(), now)));
        let Ok(assignment) = &group.assignment else {
            return;
        };
        let named = |since: &u64| assignment.grants.iter().any(|grant| grant.since == *since);
        self.given.retain(|since, _| named(since));
        for grant in &assignment.grants {
            self.given.entry(grant.since).or_insert(now);
        }
        let named = || {
            let grants = assignment.grants.iter();
            grants.flat_map(|grant| grant.former.iter().chain([&grant.owner]))
        };
        for name in named() {
            if !self.snapshot.members.contains_key(name) {
                self.sightings.note_absent(name, now);
            }
        }
        self.sightings
            .forget(lease, |name| named().any(|named| named == name));
    }

    /// SHARD-1: begins to work on the slots that the assignment gives to this member, once their former owners have
    /// stopped. Without a readable assignment, the slots stay as they are until the next one.
    fn begin_slots(&mut self) {
        let Some(group) = &self.snapshot.group else {
            return;
        };
        let Ok(assignment) = &group.assignment else {
            return;
        };
        self.assigned = assignment.slots_of(&self.name);
        let view = GroupView {
            group: &self.group,
            snapshot: &self.snapshot,
            sightings: &self.sightings,
            given: &self.given,
            lease_duration: self.timing.lease_duration,
        };
        // SHARD-11
        let is_divided_alike = assignment.division == self.division;
        for grant in &assignment.grants {
            let given = Obeyed {
                uid: group.uid.clone(),
                generation: grant.since,
            };
            let is_own = grant.owner == self.name && assignment.settled && is_divided_alike;
            let mut former = grant.former.iter().filter(|name| **name != self.name);
            let may_begin =
                is_own && former.all(|name| view.has_stopped(name, &group.uid, grant.since));
            for slot in grant.slots.iter() {
                let begun = &mut self.begun[usize::from(slot.number())];
                // What has begun goes on: a former owner that expired stays stopped even if it renews again.
                let goes_on = is_own && begun.as_ref() == Some(&given);
                // SHARD-6: a slot that comes back leaves the caches first, because another member may have worked on it.
                let is_left = !self.slots.contains(slot) && !self.busy.contains(slot);
                if goes_on {
                    continue;
                }
                if may_begin && is_left {
                    *begun = Some(given.clone());
                    self.slots.insert(slot);
                    continue;
                }
                // The next list begins what is left then.
                self.list.has_notice |= may_begin;
                *begun = None;
                self.slots.remove(slot);
            }
        }
    }

    /// Handles the reply to a write of the assigner. A refused write was decided by an outdated list.
    pub(crate) fn handle_written(&mut self, is_done: bool, now: Instant) {
        self.write.is_in_flight = false;
        self.list.has_notice = true;
        if !is_done {
            self.write.next = now + self.pause() / 4;
        }
    }

    /// Handles a change of a Lease of the group that a watch shows: another member waits for it to be seen.
    pub(crate) fn handle_notice(&mut self) {
        self.list.has_notice = true;
    }

    /// Handles the slots on which work runs now.
    pub(crate) fn handle_busy(&mut self, busy: SlotSet) {
        self.busy = busy;
    }
}
