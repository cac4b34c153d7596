//! Machine: the order in which groups start, and the order in which they stop.

/// A group of runnables that starts and stops together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[non_exhaustive]
pub enum Group {
    /// Servers of metrics and health: they start first, so that the start of other groups can be observed.
    #[display("HTTP servers")]
    HttpServers,
    /// Admission and conversion webhooks: they start before caches, because listing a kind may need a conversion
    /// webhook of this process.
    #[display("webhooks")]
    Webhooks,
    /// Caches. The group is ready when each declared kind has synced or its first list has failed, at the latest after
    /// 8 s, so that a list that hangs delays only its readers. A runnable that needs all kinds waits for
    /// [`Cache::wait_for_sync`](steersman_cache::Cache::wait_for_sync).
    #[display("caches")]
    Caches,
    /// Runnables of every replica, leader or not.
    #[display("others")]
    Others,
    /// Runnables that run only on the leader, such as controllers. Without leader election every replica is a leader.
    #[display("leader-elected")]
    LeaderElected,
}

/// MGR-1: the order of the start, in which each group is ready before the next group starts.
pub(crate) const START: [Group; 5] = [
    Group::HttpServers,
    Group::Webhooks,
    Group::Caches,
    Group::Others,
    Group::LeaderElected,
];

/// MGR-1: the order of the stop, not the reverse of the start: readers stop before the caches that they read, and
/// servers stop last.
pub(crate) const STOP: [Group; 5] = [
    Group::Others,
    Group::LeaderElected,
    Group::Caches,
    Group::Webhooks,
    Group::HttpServers,
];

#[cfg(test)]
mod tests {
    use super::*;

    /// MGR-1
    #[test]
    fn every_group_starts_once_and_stops_once() {
        let (mut start, mut stop) = (START, STOP);
        start.sort();
        stop.sort();
        assert_eq!(start, stop);
        assert!(start.windows(2).all(|pair| pair[0] != pair[1]));
    }

    /// MGR-1
    #[test]
    fn readers_stop_before_the_caches_that_they_read() {
        let at = |order: [Group; 5], group| order.iter().position(|g| *g == group);
        assert!(at(START, Group::Webhooks) < at(START, Group::Caches));
        assert!(at(START, Group::Caches) < at(START, Group::LeaderElected));
        assert!(at(STOP, Group::LeaderElected) < at(STOP, Group::Caches));
        assert!(at(STOP, Group::Others) < at(STOP, Group::LeaderElected));
        assert_eq!(STOP[4], Group::HttpServers);
    }
}
