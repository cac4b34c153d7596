//! Machine: when a subscriber has seen its initial set.

/// The place in a mailbox after which the initial set is complete.
///
/// The marker is delivered once, when nothing waits before it.
#[derive(Debug, Default)]
pub(crate) struct SyncMarker {
    position: Option<u64>,
    delivered: bool,
}

impl SyncMarker {
    /// Everything that waits at places before `position` belongs to the initial set. Only the first
    /// call counts.
    pub(crate) fn set(&mut self, position: u64) {
        if self.position.is_none() {
            self.position = Some(position);
        }
    }

    /// Whether what waits at `position` belongs to the initial set, or is mixed up with it.
    pub(crate) fn is_initial(&self, position: u64) -> bool {
        self.position.is_none_or(|marker| position < marker)
    }

    /// Whether the marker is due, where the first thing that waits does so at `first`. Says yes
    /// once.
    pub(crate) fn due(&mut self, first: Option<u64>) -> bool {
        let Some(position) = self.position.filter(|_| !self.delivered) else {
            return false;
        };
        self.delivered = first.is_none_or(|first| first >= position);
        self.delivered
    }

    /// Whether the marker waits to be delivered.
    pub(crate) fn is_waiting(&self) -> bool {
        self.position.is_some() && !self.delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_comes_once_after_all_that_was_before_it() {
        let mut marker = SyncMarker::default();
        assert!(!marker.due(None));
        marker.set(2);
        marker.set(9);
        assert!(marker.is_initial(1) && !marker.is_initial(2));
        assert!(!marker.due(Some(0)));
        assert!(!marker.due(Some(1)));
        assert!(marker.due(Some(2)));
        assert!(!marker.due(None));
    }
}
