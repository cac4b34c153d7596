//! Machine: decides when a subscriber has taken its initial objects.

/// The position in a mailbox up to which events belong to the initial objects.
///
/// The marker is delivered once, as `Delivery::Synced`, when no event waits before it.
#[derive(Debug, Default)]
pub(crate) struct SyncMarker {
    position: Option<u64>,
    delivered: bool,
}

impl SyncMarker {
    /// Sets the position of the marker: all earlier events are initial. Only the first call counts.
    pub(crate) fn set(&mut self, position: u64) {
        if self.position.is_none() {
            self.position = Some(position);
        }
    }

    /// Returns whether an event at `position` is initial, or may be because the marker is not set yet.
    pub(crate) fn is_initial(&self, position: u64) -> bool {
        self.position.is_none_or(|marker| position < marker)
    }

    /// Returns whether to deliver the marker now, given the position of the first waiting event. Returns true once.
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
