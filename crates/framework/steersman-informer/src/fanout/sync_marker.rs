//! Machine: decides when a subscriber has taken its initial objects.

/// The position in a mailbox after which the initial objects are complete.
///
/// The marker is delivered once, when nothing waits before it.
#[derive(Debug, Default)]
pub(crate) struct SyncMarker {
    position: Option<u64>,
    delivered: bool,
}

impl SyncMarker {
    /// Sets the position of the marker: everything before it is initial. Only the first call
    /// counts.
    pub(crate) fn set(&mut self, position: u64) {
        if self.position.is_none() {
            self.position = Some(position);
        }
    }

    /// Returns whether an event at `position` is initial, or may be.
    pub(crate) fn is_initial(&self, position: u64) -> bool {
        self.position.is_none_or(|marker| position < marker)
    }

    /// Returns whether the marker is due, given the position of the first waiting event. Returns
    /// true once.
    pub(crate) fn due(&mut self, first: Option<u64>) -> bool {
        let Some(position) = self.position.filter(|_| !self.delivered) else {
            return false;
        };
        self.delivered = first.is_none_or(|first| first >= position);
        self.delivered
    }

    pub(crate) fn is_waiting(&self) -> bool {
        self.position.is_some() && !self.delivered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_due_once_after_everything_before_it() {
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
