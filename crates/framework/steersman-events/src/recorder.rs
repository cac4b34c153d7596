//! Handle: the recorder of one controller or component.

use std::fmt::Display;
use std::sync::Arc;

use steersman_api::ClientConfig;

use crate::names::{reporting_controller, reporting_instance};
use crate::new_event::NewEvent;
use crate::object_ref::Regarding;
use crate::publisher::EventPublisher;
use crate::series::{EventSubject, Reporter};

/// Records events under one name. Cheap to clone.
///
/// A reconciler gets the recorder of its controller from its context; other parts of a program take one
/// of the manager, or of an [`EventPublisher`]. Recording never waits and never fails (EVENT-1): the
/// events are sent by one task per publisher, and events that cannot be sent are counted.
#[derive(Clone, derive_more::Debug)]
#[debug("EventRecorder {{ name: {:?}, .. }}", reporter.controller)]
#[must_use]
pub struct EventRecorder {
    publisher: EventPublisher,
    reporter: Arc<Reporter>,
}

impl EventPublisher {
    /// Makes a recorder. `name` becomes the `reportingController` of its events, and
    /// `name-host`, cut at 128 bytes, their `reportingInstance`, as in controller-runtime.
    ///
    /// The server accepts only qualified names, such as `website` or `example.com/website`; other
    /// characters of the name become hyphens.
    pub fn recorder(&self, name: &str) -> EventRecorder {
        let host = hostname::get().unwrap_or_default();
        let reporter = Reporter {
            controller: reporting_controller(name),
            instance: reporting_instance(name, &host.to_string_lossy()),
        };
        EventRecorder {
            publisher: self.clone(),
            reporter: Arc::new(reporter),
        }
    }
}

impl EventRecorder {
    /// Records an event of type `Normal` about an object.
    ///
    /// `reason` says why the event occurred, `action` what was done: one word in CamelCase each. `note`
    /// is the text for people.
    ///
    /// ```
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # fn f(recorder: &steersman_events::EventRecorder, site: &ConfigMap, pages: usize) {
    /// recorder.normal(site, "Published", "Publish", format_args!("published {pages} pages"));
    /// # }
    /// ```
    pub fn normal<K>(
        &self,
        regarding: &impl Regarding<K>,
        reason: &str,
        action: &str,
        note: impl Display,
    ) {
        self.publish(regarding, NewEvent::normal(reason, action).note(note));
    }

    /// Records an event of type `Warning` about an object, with the arguments of
    /// [`normal`](Self::normal).
    pub fn warning<K>(
        &self,
        regarding: &impl Regarding<K>,
        reason: &str,
        action: &str,
        note: impl Display,
    ) {
        self.publish(regarding, NewEvent::warning(reason, action).note(note));
    }

    /// Records an event about an object.
    ///
    /// Equal events become one Event with a count (EVENT-3), and events that differ only in their
    /// notes become one after the tenth note (EVENT-4). The Event is in the namespace of the object, or
    /// in `default` if the object is cluster-scoped.
    pub fn publish<K>(&self, regarding: &impl Regarding<K>, event: NewEvent) {
        let subject = EventSubject {
            reporter: Arc::clone(&self.reporter),
            regarding: regarding.reference(),
        };
        self.publisher.record(&subject, event);
    }

    /// Returns a recorder of the same name for another server; see [`EventPublisher::for_client_config`].
    pub fn for_client_config(&self, client_config: ClientConfig) -> Self {
        Self {
            publisher: self.publisher.for_client_config(client_config),
            reporter: Arc::clone(&self.reporter),
        }
    }

    /// Returns the `reportingController` of the events.
    pub fn name(&self) -> &str {
        &self.reporter.controller
    }
}
