//! Machine: decides the next assignment of a group, and which Leases of former members can go.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use steersman_object::ShardSlot;

use crate::assignment::{Assignment, SlotHistory};
use crate::balance::balanced;
use crate::record::{GroupRecord, GroupSnapshot, Standing};
use crate::sightings::Sightings;

/// How long the Lease of a member that has expired stays, in lease durations: a paused process may come back.
const KEPT_FOR: u32 = 10;

/// What the assigner sees: a list of the Leases, and how long each has been silent.
#[derive(Debug)]
pub(crate) struct GroupView<'a> {
    /// The name of the group, which is that of its Lease.
    pub(crate) group: &'a str,
    pub(crate) snapshot: &'a GroupSnapshot,
    pub(crate) sightings: &'a Sightings,
    /// When a list first showed each generation that grants of the present assignment name.
    pub(crate) given: &'a BTreeMap<u64, Instant>,
    pub(crate) lease_duration: Duration,
}

/// A write of the assigner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupWrite {
    Create(Assignment),
    /// The version is that of the Lease that the assignment replaces.
    Replace(Assignment, String),
    /// Deletes the Lease of this name and version: that of a former member, or that of the group if it cannot be read. A
    /// new Lease of the group has another uid, so that no generation of the old one counts.
    Delete(String, String),
}

impl GroupView<'_> {
    /// Returns whether a former owner has stopped its work on slots that the generation `since` gave away (SHARD-1).
    pub(crate) fn has_stopped(&self, member: &str, uid: &str, since: u64) -> bool {
        let content = self.snapshot.members.get(member).map(|one| &one.content);
        let obeyed = content.and_then(|one| one.obeyed.as_ref());
        let has_obeyed = obeyed.is_some_and(|one| one.uid == uid && one.generation >= since);
        let given = self.given.get(&since).copied();
        has_obeyed || self.is_released(member) || self.has_expired(member, given)
    }

    fn is_released(&self, member: &str) -> bool {
        let member = self.snapshot.members.get(member);
        member.is_some_and(|one| one.content.standing == Standing::Released)
    }

    fn has_expired(&self, member: &str, given: Option<Instant>) -> bool {
        self.sightings.silent_for(member, given) >= self.lease_duration
    }

    /// Returns the names of the members that can own slots, in order. The first one assigns.
    pub(crate) fn live(&self) -> Vec<&str> {
        let Some(division) = self.division() else {
            return Vec::new();
        };
        let of_division = self.standing().filter(|(_, of)| *of == division);
        of_division.map(|(name, _)| name).collect()
    }

    /// Returns the division by which the group works or will work (SHARD-11): that of the assignment while a member has it,
    /// else that of the first member.
    pub(crate) fn division(&self) -> Option<&str> {
        let group = self.snapshot.group.as_ref();
        let assignment = group.and_then(|group| group.assignment.as_ref().ok());
        let mut divisions = self.standing().map(|(_, division)| division);
        let first = divisions.clone().next();
        let goes_on = |assignment: &&Assignment| divisions.any(|one| one == assignment.division);
        let kept = assignment.filter(goes_on);
        kept.map(|assignment| assignment.division.as_str())
            .or(first)
    }

    /// Returns the members that neither leave nor have expired, in order, with their divisions.
    fn standing(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        let members = self.snapshot.members.iter();
        members
            .filter(|(name, member)| {
                member.content.standing == Standing::Member && !self.has_expired(name, None)
            })
            .map(|(name, member)| (name.as_str(), member.content.division.as_str()))
    }

    /// Returns the write that is due. `may_settle` says that two retry periods have passed since the assignment was
    /// first seen.
    pub(crate) fn next_write(&self, may_settle: bool) -> Option<GroupWrite> {
        let division = self.division()?;
        let live = self.live();
        let Some(group) = &self.snapshot.group else {
            return Some(GroupWrite::Create(self.first(&live, division)));
        };
        let Ok(assignment) = &group.assignment else {
            let name = self.group.to_owned();
            return Some(GroupWrite::Delete(name, group.version.clone()));
        };
        let next = match assignment.division == division {
            true => self.changed(group, assignment, &live, may_settle),
            false => Some(self.divided_anew(group, assignment, &live, division)),
        };
        next.map(|next| GroupWrite::Replace(next, group.version.clone()))
            .or_else(|| self.gone_member(assignment))
    }

    fn first(&self, live: &[&str], division: &str) -> Assignment {
        // A member may still work although its Lease was deleted together with that of the group.
        let seen = self.sightings.seen_within(self.lease_duration);
        let working: BTreeSet<&str> = seen.filter(|name| !self.is_released(name)).collect();
        let histories = histories(live, 1, &working);
        Assignment::of(1, division, false, &histories)
    }

    /// SHARD-11: by another division, the objects of a slot were in any slot before.
    fn divided_anew(
        &self,
        group: &GroupRecord,
        before: &Assignment,
        live: &[&str],
        division: &str,
    ) -> Assignment {
        let generation = before.generation + 1;
        let mut working = BTreeSet::new();
        for grant in &before.grants {
            let former = grant.former.iter().map(String::as_str);
            working.extend(former.filter(|name| !self.has_stopped(name, &group.uid, grant.since)));
            working.extend(Some(&*grant.owner).filter(|name| !self.is_released(name)));
        }
        let histories = histories(live, generation, &working);
        Assignment::of(generation, division, before.settled, &histories)
    }

    fn changed(
        &self,
        group: &GroupRecord,
        before: &Assignment,
        live: &[&str],
        may_settle: bool,
    ) -> Option<Assignment> {
        let histories = before.histories();
        let owner_of = |slot: ShardSlot| {
            let history = histories.get(usize::from(slot.number()))?;
            Some(history.owner.as_str())
        };
        let owners = balanced(live, owner_of);
        let is_balanced = histories.iter().map(|one| &one.owner).eq(&owners);
        let settles = !before.settled && may_settle;
        let names_gone = || self.gone(|member| before.names_former(member)).is_some();
        if is_balanced && !settles && !names_gone() {
            return None;
        }
        let generation = before.generation + 1;
        let next = histories.iter().cloned().zip(owners).map(|(old, owner)| {
            let mut former = old.former;
            former.retain(|member| !self.has_stopped(member, &group.uid, old.since));
            if old.owner == owner {
                return SlotHistory {
                    owner: old.owner,
                    since: old.since,
                    former,
                };
            }
            // An owner that has expired may come back and find itself the owner, until this assignment is written.
            if !self.is_released(&old.owner) {
                former.insert(old.owner);
            }
            former.remove(owner);
            SlotHistory {
                owner: owner.to_owned(),
                since: generation,
                former,
            }
        });
        let next: Vec<SlotHistory> = next.collect();
        let settled = before.settled || settles;
        Some(Assignment::of(generation, &before.division, settled, &next))
    }

    /// Returns the deletion of the Lease of a member that no grant names.
    fn gone_member(&self, assignment: &Assignment) -> Option<GroupWrite> {
        let name = self.gone(|member| {
            let is_owner = assignment.grants.iter().any(|grant| grant.owner == member);
            !is_owner && !assignment.names_former(member)
        })?;
        let version = self.snapshot.members.get(name)?.version.clone();
        Some(GroupWrite::Delete(name.to_owned(), version))
    }

    /// Returns a member that was released, or that has been silent for long.
    fn gone(&self, is_wanted: impl Fn(&str) -> bool) -> Option<&str> {
        let longest = self.lease_duration * KEPT_FOR;
        let mut members = self.snapshot.members.iter();
        let found = members.find(|(name, member)| {
            let is_released = member.content.standing == Standing::Released;
            (is_released || self.sightings.silent_for(name, None) >= longest) && is_wanted(name)
        });
        found.map(|(name, _)| name.as_str())
    }
}

/// Returns the histories of slots that one generation gives to its members, after members that may work on all slots.
fn histories(live: &[&str], since: u64, working: &BTreeSet<&str>) -> Vec<SlotHistory> {
    let owners = balanced(live, |_| None).into_iter();
    let histories = owners.map(|owner| {
        let former = working.iter().filter(|name| **name != owner);
        SlotHistory {
            owner: owner.to_owned(),
            since,
            former: former.map(|name| (*name).to_owned()).collect(),
        }
    });
    histories.collect()
}
