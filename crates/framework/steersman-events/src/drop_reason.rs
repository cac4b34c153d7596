//! Words: why an event was dropped.

/// The reason why an event has no Event on the server: the label `reason` of `steersman_events_dropped_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DropReason {
    /// The queue of writes was full.
    QueueFull,
    /// Too many new Events were about the same object.
    RateLimited,
    /// The event lacks a reason and an action, or its object lacks a name.
    Incomplete,
    /// The manager has stopped, or the time for the stop was over.
    Stopped,
    /// The server could not be reached in time.
    Unreachable,
    /// The server's authorizers deny the write.
    Forbidden,
    /// The namespace of the event is being deleted.
    NamespaceTerminating,
    NamespaceMissing,
    Refused,
}

impl DropReason {
    pub(crate) const ALL: [Self; 9] = [
        Self::QueueFull,
        Self::RateLimited,
        Self::Incomplete,
        Self::Stopped,
        Self::Unreachable,
        Self::Forbidden,
        Self::NamespaceTerminating,
        Self::NamespaceMissing,
        Self::Refused,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::RateLimited => "rate_limited",
            Self::Incomplete => "incomplete",
            Self::Stopped => "stopped",
            Self::Unreachable => "unreachable",
            Self::Forbidden => "forbidden",
            Self::NamespaceTerminating => "namespace_terminating",
            Self::NamespaceMissing => "namespace_missing",
            Self::Refused => "refused",
        }
    }

    /// Returns the consequence of the drop and a remedy, for the log.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::QueueFull => {
                "1,000 writes of Events wait for the server: record fewer events, or look why the server is slow"
            }
            Self::RateLimited => {
                "an object has more than 25 different events: repeat the same note, or record fewer events"
            }
            Self::Incomplete => {
                "the event has neither reason nor action, or its object has no name: give it one"
            }
            Self::Stopped => {
                "the event was recorded when the manager had stopped, or shortly before"
            }
            Self::Unreachable => "the server was not reached in 12 attempts",
            Self::Forbidden => {
                "grant the operator the verbs create and patch on events of the group events.k8s.io"
            }
            Self::NamespaceTerminating => {
                "the namespace is being deleted, so no Event can be created in it"
            }
            Self::NamespaceMissing => "the namespace of the object does not exist",
            Self::Refused => "the server refused the Event: see the detail",
        }
    }
}
