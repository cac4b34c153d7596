//! Words: sets of completion indexes of a Job; the status of the Job has them as text such as `0,2-4`.

use std::collections::BTreeSet;
use std::fmt;

use steersman_apimachinery::indexes::parse_interval;

/// A set of completion indexes as sorted ranges: even a Job with a million Pods has few ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Indexes(Vec<(i64, i64)>);

impl Indexes {
    /// Parses a text such as `0,2-4`. Ignores what does not parse, and indexes that are not below `completions`.
    pub(super) fn parse(text: &str, completions: i64) -> Self {
        let mut runs = Vec::new();
        for part in text.split(',') {
            if let Ok((first, last)) = parse_interval(part, i64::MAX) {
                let (first, last) = (first.max(0), last.min(completions - 1));
                if first <= last {
                    runs.push((first, last));
                }
            }
        }
        Self::of_runs(runs)
    }

    pub(super) fn of(indexes: &BTreeSet<i64>) -> Self {
        Self::of_runs(indexes.iter().map(|index| (*index, *index)).collect())
    }

    fn of_runs(mut runs: Vec<(i64, i64)>) -> Self {
        runs.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (first, last) in runs {
            match merged.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = (*end).max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    /// Returns the indexes that are in this set, in the other set, or in both.
    pub(super) fn and(&self, other: &Self) -> Self {
        Self::of_runs(self.0.iter().chain(&other.0).copied().collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn has(&self, index: i64) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < index);
        self.0.get(at).is_some_and(|(first, _)| *first <= index)
    }

    pub(super) fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Returns how many indexes are in both sets.
    pub(super) fn common(&self, other: &Self) -> i64 {
        let (mut own, mut others) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut count = 0;
        while let (Some(one), Some(two)) = (own.peek(), others.peek()) {
            count += (one.1.min(two.1) - one.0.max(two.0) + 1).max(0);
            if one.1 < two.1 {
                own.next();
            } else {
                others.next();
            }
        }
        count
    }

    /// Returns the indexes below `completions` that are not in the set, in ascending order.
    pub(super) fn missing(&self, completions: i64) -> impl Iterator<Item = i64> {
        let ends = [(completions.max(0), i64::MAX)];
        let mut from = 0;
        self.0
            .iter()
            .copied()
            .chain(ends)
            .flat_map(move |(first, last)| {
                let gap = from..first.min(completions);
                from = from.max(last.saturating_add(1));
                gap
            })
    }
}

impl fmt::Display for Indexes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_runs() {
        let all = Indexes::of(&BTreeSet::from([0, 1, 3, 4, 5, 9]));
        assert_eq!(all.to_string(), "0,1,3-5,9");
        assert_eq!(Indexes::parse("0,1,3-5,9", 10), all);
        assert_eq!(Indexes::parse("0,1,3-5,9", 5).to_string(), "0,1,3,4");
        assert!(Indexes::parse("", 10).is_empty());
        assert!(Indexes::parse("5-1,x,9999999999999999999,-3", 10).is_empty());
    }

    #[test]
    fn index_sets_are_joined_counted_and_compared() {
        let one = Indexes::parse("0-3,7", 10);
        let two = Indexes::parse("2,3,5-8", 10);
        assert_eq!(one.and(&two).to_string(), "0-3,5-8");
        assert_eq!((one.count(), one.common(&two), two.common(&one)), (5, 3, 3));
        assert!(one.has(7) && one.has(0) && !one.has(4) && !one.has(8));
        assert_eq!(one.missing(9).collect::<Vec<_>>(), [4, 5, 6, 8]);
        assert_eq!(Indexes::default().missing(2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(one.missing(0).count(), 0);
    }
}
