//! Words: an event that a program wants to record.

use std::fmt::Display;

use crate::event_type::EventType;
use crate::names::{NOTE_LIMIT, TEXT_LIMIT, cut};
use crate::object_ref::{ObjectRef, Regarding};

/// An event to be recorded: what happened, and what the operator did about it.
///
/// Texts that are longer than the server accepts are cut at a character: reason and action at 128
/// bytes, the note at 1,024 bytes (validation of events.k8s.io/v1).
///
/// ```
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// use steersman_events::NewEvent;
///
/// # let (config, pages) = (ConfigMap::default(), 3);
/// let event = NewEvent::normal("Published", "Publish")
///     .note(format_args!("published {pages} pages"))
///     .related(&config);
/// # let _ = event;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "pass it to `EventRecorder::publish`"]
pub struct NewEvent {
    pub(crate) event_type: EventType,
    pub(crate) reason: String,
    pub(crate) action: String,
    pub(crate) note: String,
    pub(crate) related: Option<ObjectRef>,
}

impl NewEvent {
    /// Makes an event of type `Normal`. `reason` says why the event occurred, `action` what was done:
    /// both are one word in CamelCase, such as `Published` and `Publish`. If one of them is empty, the
    /// other one is used for both.
    pub fn normal(reason: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(EventType::Normal, reason.into(), action.into())
    }

    /// Makes an event of type `Warning`, with `reason` and `action` as in [`normal`](Self::normal).
    pub fn warning(reason: impl Into<String>, action: impl Into<String>) -> Self {
        Self::new(EventType::Warning, reason.into(), action.into())
    }

    /// Sets the note: the text for people, which `kubectl describe` shows as the message.
    pub fn note(mut self, note: impl Display) -> Self {
        self.note = note.to_string();
        cut(&mut self.note, NOTE_LIMIT);
        self
    }

    /// Names a second object of the action, such as the child that was created.
    pub fn related<K>(mut self, object: &impl Regarding<K>) -> Self {
        self.related = Some(object.reference());
        self
    }

    fn new(event_type: EventType, mut reason: String, mut action: String) -> Self {
        cut(&mut reason, TEXT_LIMIT);
        cut(&mut action, TEXT_LIMIT);
        if action.is_empty() {
            action.clone_from(&reason);
        } else if reason.is_empty() {
            reason.clone_from(&action);
        }
        Self {
            event_type,
            reason,
            action,
            note: String::new(),
            related: None,
        }
    }
}
