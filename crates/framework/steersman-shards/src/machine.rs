//! Machine: one member of a group: decides its requests and their times, and on which slots it may work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use steersman_lease::Timing;
use steersman_object::{Jitter, ShardSlot, SlotSet};

use crate::assigner::{GroupView, GroupWrite};
use crate::record::{GroupSnapshot, MemberContent, Obeyed, Standing};
use crate::sightings::Sightings;
use crate::status::ShardStatus;

mod replies;

/// The shortest time between two lists that changes cause.
const BETWEEN_LISTS: Duration = Duration::from_millis(20);

/// One member of a group.
///
/// The driver carries out each [`ShardStep`], and reports the replies, the changes that a watch shows, and the slots on
/// which work runs. Requests of different kinds run side by side.
#[derive(Debug)]
pub(crate) struct MemberMachine {
    name: String,
    group: String,
    /// The [division](steersman_object::ShardBy::division) of this member.
    division: String,
    timing: Timing,
    jitter: Jitter,
    stage: MemberStage,
    renewal: Renewal,
    list: Listing,
    write: GroupWriting,
    snapshot: GroupSnapshot,
    sightings: Sightings,
    /// When the Lease of the group was first seen, with its uid.
    group_seen: Option<(String, Instant)>,
    /// When a list first showed each generation that grants of the present assignment name.
    given: BTreeMap<u64, Instant>,
    /// For each slot on which this member may work: the uid of the group's Lease and the generation that gave the slot.
    begun: Vec<Option<Obeyed>>,
    /// The slots in `begun`.
    slots: SlotSet,
    /// The slots that the listed assignment gives to this member.
    assigned: SlotSet,
    /// Whether a list shows the group after the last loss, so that the member may work.
    is_current: bool,
    /// When the reply to the first renewal after the last loss arrived: only later lists count.
    current_from: Option<Instant>,
    /// The slots on which work runs.
    busy: SlotSet,
    /// The deadline of the last successful renewal, also after the Lease was deleted.
    stop_by: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberStage {
    Member,
    Leaving,
    Ended,
}

/// The renewals of the member's own Lease.
#[derive(Debug)]
struct Renewal {
    /// The resource version of the Lease; `None` before its creation.
    version: Option<String>,
    written: MemberContent,
    sent: Option<(Instant, MemberContent)>,
    /// When the last successful renewal was sent.
    renewed: Option<Instant>,
    next: Instant,
    /// Whether the last attempt has failed, so that the next one waits.
    has_failed: bool,
    /// When the last reply arrived.
    replied: Option<Instant>,
}

#[derive(Debug)]
struct Listing {
    sent: Option<Instant>,
    /// When the last list was sent.
    last: Option<Instant>,
    next: Instant,
    has_notice: bool,
}

/// The writes of the group's Lease, and of the Leases of former members.
#[derive(Debug)]
struct GroupWriting {
    is_in_flight: bool,
    /// Whether a list was received since the last write, so that another write can be decided.
    may_write: bool,
    next: Instant,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ShardStep {
    Wait(Instant),
    /// Writes the member's own Lease: the version is that of the known Lease, `None` for a create. Fails at the instant.
    Renew(MemberContent, Option<String>, Instant),
    List(Instant),
    Write(GroupWrite, Instant),
    End,
}

/// The reply to a renewal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenewReply {
    /// The new version of the Lease.
    Renewed(String),
    /// The Lease is gone: another party deleted it.
    Gone,
    /// The Lease exists already, with this version.
    Exists(String),
    /// The Lease has another version: a list shows it.
    Outdated,
    /// The request has failed, and may have been executed.
    Failed,
}

/// On which slots a member works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Holding {
    /// The slots that the member owns, and that no other member works on.
    pub(crate) slots: SlotSet,
    /// Until when the member may work on them; `None` while it may not (SHARD-3).
    pub(crate) until: Option<Instant>,
}

impl MemberMachine {
    pub(crate) fn new(
        (group, name, division): (&str, &str, &str),
        timing: Timing,
        seed: u64,
        now: Instant,
    ) -> Self {
        Self {
            name: name.to_owned(),
            group: group.to_owned(),
            division: division.to_owned(),
            timing,
            jitter: Jitter::new(seed),
            stage: MemberStage::Member,
            renewal: Renewal {
                version: None,
                written: MemberContent::default(),
                sent: None,
                renewed: None,
                next: now,
                has_failed: false,
                replied: None,
            },
            list: Listing {
                sent: None,
                last: None,
                next: now,
                has_notice: false,
            },
            write: GroupWriting {
                is_in_flight: false,
                may_write: false,
                next: now,
            },
            snapshot: GroupSnapshot::default(),
            sightings: Sightings::default(),
            group_seen: None,
            given: BTreeMap::new(),
            begun: vec![None; ShardSlot::COUNT],
            slots: SlotSet::EMPTY,
            assigned: SlotSet::EMPTY,
            is_current: false,
            current_from: None,
            busy: SlotSet::EMPTY,
            stop_by: None,
        }
    }

    /// Returns the step of the driver at `now`.
    pub(crate) fn next_step(&mut self, now: Instant) -> ShardStep {
        if self.stage == MemberStage::Ended {
            return ShardStep::End;
        }
        self.check_deadline(now);
        let limit = now + self.timing.request_limit();
        if self.renewal.sent.is_none() && (self.renewal.next <= now || self.has_news()) {
            let content = self.content();
            self.renewal.sent = Some((now, content.clone()));
            return ShardStep::Renew(content, self.renewal.version.clone(), limit);
        }
        if self.list.sent.is_none() && self.list_at() <= now {
            self.list.sent = Some(now);
            self.list.last = Some(now);
            self.list.has_notice = false;
            return ShardStep::List(limit);
        }
        if self.may_write(now) {
            // The decision stands until the next list.
            self.write.may_write = false;
            if let Some(write) = self.due_write(now) {
                self.write.is_in_flight = true;
                return ShardStep::Write(write, limit);
            }
        }
        ShardStep::Wait(self.wake_at(now))
    }

    fn wake_at(&self, now: Instant) -> Instant {
        let mut at = now + self.timing.lease_duration;
        if self.renewal.sent.is_none() {
            at = at.min(self.renewal.next);
        }
        if self.list.sent.is_none() {
            at = at.min(self.list_at());
        }
        if let Some(deadline) = self.deadline().filter(|_| self.is_current) {
            at = at.min(deadline);
        }
        at
    }

    /// Returns the time of the next list: a change causes one at once.
    fn list_at(&self) -> Instant {
        let soonest = self.list.last.map(|last| last + BETWEEN_LISTS);
        match soonest.filter(|_| self.list.has_notice) {
            Some(soonest) => soonest.min(self.list.next),
            None => self.list.next,
        }
    }

    /// SHARD-3: the member stops when its renew deadline has passed since it sent its last successful renewal.
    fn deadline(&self) -> Option<Instant> {
        Some(self.renewal.renewed? + self.timing.renew_deadline)
    }

    fn check_deadline(&mut self, now: Instant) {
        if self.deadline().is_none_or(|deadline| deadline <= now) {
            self.lose();
        }
    }

    fn lose(&mut self) {
        self.is_current = false;
        self.current_from = None;
    }

    /// Returns on which slots the member works, and until when.
    pub(crate) fn holding(&self, now: Instant) -> Holding {
        let until = self
            .deadline()
            .filter(|until| self.is_current && *until > now);
        // A member that leaves takes no new work; the work that runs goes on.
        let slots = match self.stage {
            MemberStage::Member => self.slots,
            MemberStage::Leaving | MemberStage::Ended => SlotSet::EMPTY,
        };
        Holding { slots, until }
    }

    /// Returns the snapshot of the last list.
    pub(crate) fn snapshot(&self) -> &GroupSnapshot {
        &self.snapshot
    }

    /// Returns the state of the membership.
    pub(crate) fn status(&self, now: Instant) -> ShardStatus {
        let holding = self.holding(now);
        let view = self.view();
        let mut status = ShardStatus {
            group: self.group.clone(),
            member: self.name.clone(),
            members: view.live().into_iter().map(str::to_owned).collect(),
            owned: holding.slots,
            division: self.division.clone(),
            other_division: view
                .division()
                .filter(|division| *division != self.division)
                .map(str::to_owned),
            is_renewed: holding.until.is_some(),
            ..ShardStatus::default()
        };
        let group = self.snapshot.group.as_ref();
        status.group_uid = group.map(|group| group.uid.clone());
        let Some((uid, Ok(assignment))) = group.map(|group| (&group.uid, &group.assignment)) else {
            return status;
        };
        status.generation = assignment.generation;
        let mut waits_for = BTreeSet::new();
        for grant in assignment
            .grants
            .iter()
            .filter(|grant| grant.owner == self.name)
        {
            let awaited = grant.slots.difference(&self.slots);
            if !awaited.is_empty() {
                status.awaited = status.awaited.union(&awaited);
                let former = grant.former.iter();
                waits_for.extend(former.filter(|name| !view.has_stopped(name, uid, grant.since)));
            }
        }
        status.waits_for = waits_for.into_iter().cloned().collect();
        status
    }

    /// Returns when the process must end because work runs after the loss of the Lease: half-way between the renew
    /// deadline and the expiry (SHARD-3).
    pub(crate) fn overrun_at(&self) -> Option<Instant> {
        let is_lost = !self.is_current;
        Some(self.stop_by.filter(|_| is_lost)? + self.timing.stop_limit())
    }

    fn view(&self) -> GroupView<'_> {
        GroupView {
            group: &self.group,
            snapshot: &self.snapshot,
            sightings: &self.sightings,
            given: &self.given,
            lease_duration: self.timing.lease_duration,
        }
    }

    /// Returns what the next renewal says of this member.
    fn content(&self) -> MemberContent {
        let newest = self.newest_obeyed().map(|(uid, generation)| Obeyed {
            uid: uid.to_owned(),
            generation,
        });
        MemberContent {
            standing: self.standing(),
            division: self.division.clone(),
            obeyed: newest.or_else(|| self.renewal.written.obeyed.clone()),
        }
    }

    fn standing(&self) -> Standing {
        match self.stage {
            MemberStage::Member => Standing::Member,
            _ if self.busy.is_empty() => Standing::Released,
            _ => Standing::Leaving,
        }
    }

    /// Returns the uid of the group's Lease and the newest generation, if no work runs on a slot that this generation
    /// gives to another member (SHARD-1).
    fn newest_obeyed(&self) -> Option<(&str, u64)> {
        let group = self.snapshot.group.as_ref()?;
        let assignment = group.assignment.as_ref().ok()?;
        let lost = self.busy.difference(&self.assigned);
        lost.is_empty()
            .then_some((group.uid.as_str(), assignment.generation))
    }

    /// Returns whether the other members wait for what the next renewal says.
    fn has_news(&self) -> bool {
        let written = &self.renewal.written;
        let obeyed = written.obeyed.as_ref();
        let obeyed = obeyed.map(|one| (one.uid.as_str(), one.generation));
        let newest = self.newest_obeyed();
        let is_new = written.standing != self.standing() || newest.is_some() && newest != obeyed;
        is_new && !self.renewal.has_failed && self.renewal.version.is_some()
    }

    fn may_write(&self, now: Instant) -> bool {
        let writing = &self.write;
        // The first assignment is written by a member that is not current yet.
        let is_member = self.stage == MemberStage::Member && self.current_from.is_some();
        is_member && !writing.is_in_flight && writing.may_write && writing.next <= now
    }

    /// Returns the write that this member must send, if it is the assigner.
    fn due_write(&self, now: Instant) -> Option<GroupWrite> {
        let view = self.view();
        if view.live().first() != Some(&self.name.as_str()) {
            return None;
        }
        let may_settle = self.group_seen.as_ref().is_some_and(|(_, seen)| {
            now.saturating_duration_since(*seen) >= self.timing.creation_hold()
        });
        view.next_write(may_settle)
    }

    /// Leaves the group: the member takes no new work, and is released when no work runs any more (SHARD-2).
    pub(crate) fn leave(&mut self) {
        if self.stage == MemberStage::Member {
            self.stage = MemberStage::Leaving;
            if self.renewal.version.is_none() && self.renewal.sent.is_none() {
                // Without a Lease it is no member.
                self.stage = MemberStage::Ended;
            }
        }
    }

    /// Ends the membership without a release: the Lease expires.
    pub(crate) fn abandon(&mut self) {
        self.stage = MemberStage::Ended;
    }
}

#[cfg(test)]
mod tests;
