//! Machine: distributes the slots over the members.

use std::collections::BTreeMap;

use steersman_object::ShardSlot;

/// Returns the owner of each slot: each member gets the same number of slots, or one more, and as few slots as possible
/// move from the members that have them. `members` is not empty.
pub(crate) fn balanced<'a>(
    members: &[&'a str],
    current: impl Fn(ShardSlot) -> Option<&'a str>,
) -> Vec<&'a str> {
    let slots = || (0..=u8::MAX).map(ShardSlot::new);
    let mut counts: BTreeMap<&str, usize> = members.iter().map(|member| (*member, 0)).collect();
    for owner in slots().filter_map(&current) {
        if let Some(count) = counts.get_mut(owner) {
            *count += 1;
        }
    }
    // Those that have the most keep one more, so that fewer slots move.
    let mut by_count: Vec<(&str, usize)> = counts.into_iter().collect();
    by_count.sort_by_key(|(name, count)| (usize::MAX - count, *name));
    let (share, rest) = (
        ShardSlot::COUNT / members.len().max(1),
        ShardSlot::COUNT % members.len().max(1),
    );
    let mut quotas: BTreeMap<&'a str, usize> = BTreeMap::new();
    for (number, (name, _)) in by_count.into_iter().enumerate() {
        // The name is one of `members`, which live as long as the result.
        if let Some(member) = members.iter().find(|member| **member == name) {
            quotas.insert(member, share + usize::from(number < rest));
        }
    }
    let kept: Vec<Option<&'a str>> = slots()
        .map(|slot| {
            let owner = current(slot)?;
            let left = quotas.get_mut(owner).filter(|left| **left > 0)?;
            *left -= 1;
            Some(owner)
        })
        .collect();
    let mut free = quotas
        .into_iter()
        .flat_map(|(member, left)| std::iter::repeat_n(member, left));
    let owners = kept.into_iter().map(|owner| owner.or_else(|| free.next()));
    owners.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next<'a>(members: &[&'a str], before: &[&'a str]) -> (Vec<&'a str>, usize) {
        let current = |slot: ShardSlot| before.get(usize::from(slot.number())).copied();
        let after = balanced(members, current);
        let moved = after.iter().zip(before).filter(|(a, b)| a != b).count();
        (after, moved)
    }

    fn counts(owners: &[&str], members: &[&str]) -> Vec<usize> {
        let of = |member: &&str| owners.iter().filter(|owner| *owner == member).count();
        members.iter().map(of).collect()
    }

    #[test]
    fn few_slots_move_and_all_members_have_about_the_same_number() {
        let all = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut owners: Vec<&str> = Vec::new();
        for number in 1..=all.len() {
            let members = &all[..number];
            let (after, moved) = next(members, &owners);
            let counts = counts(&after, members);
            assert_eq!(after.len(), ShardSlot::COUNT);
            assert!(
                counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
                "{counts:?}"
            );
            assert!(
                moved <= ShardSlot::COUNT.div_ceil(number),
                "{number}: {moved}"
            );
            owners = after;
        }
        // The slots of a member that has gone move, and no others.
        let members = ["a", "c", "d", "e", "f", "g", "h"];
        let (after, moved) = next(&members, &owners);
        assert_eq!(moved, 32);
        assert!(!after.contains(&"b"));
        assert_eq!(next(&members, &after).1, 0);
    }
}
