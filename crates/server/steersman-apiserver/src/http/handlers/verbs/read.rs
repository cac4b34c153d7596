//! Machine: the verbs that read objects: get, list and watch.

use steersman_apimachinery::selector::FieldSelector;
use steersman_apimachinery::status::Status;
use steersman_registry::{Registry, is_component_status};

use super::ObjectCall;
use crate::http::requests::negotiate::{self, Format};
use crate::http::responses::events::EventEncoder;
use crate::http::responses::protobuf::PROTOBUF_WATCH;
use crate::http::responses::reply::{Answered, JSON, Reply, ReplyBody, WatchBody};

impl ObjectCall<'_> {
    /// Gets an object. ComponentStatuses are not stored, but built for each request.
    pub(super) fn get(&self, registry: &Registry) -> Answered {
        let target = self.target;
        let object = if is_component_status(target.resource) {
            registry.component_status(target.name, self.now)?
        } else {
            registry.get(target, self.call.query.get("resourceVersion"))?
        };
        self.maker.object(200, target.resource, &object)
    }

    /// Lists objects. ComponentStatuses are not stored, but built for each request.
    pub(super) fn list(&self, registry: &Registry) -> Answered {
        let resource = self.target.resource;
        let options = self.call.query.list_options()?;
        let page = if is_component_status(resource) {
            registry.component_statuses(&options, self.now)?
        } else {
            registry.list(resource, self.target.namespace, &options)?
        };
        self.maker.page(resource, page)
    }

    pub(super) fn watch(&self, registry: &Registry) -> Answered {
        let (call, resource) = (self.call, self.target.resource);
        let mut options = call.query.watch_options()?;
        let timeout_seconds = call.query.timeout_seconds()?;
        if !call.watch_list && options.send_initial_events.is_some() {
            return Err(watch_list_is_off());
        }
        if let Some(name) = call.path.name.as_deref() {
            let one = format!("metadata.name={name}");
            let more = options.field_selector.as_deref().unwrap_or_default();
            let more = FieldSelector::parse(more)?;
            let mut terms = more.terms().iter();
            if terms.len() == 0 {
                options.field_selector = Some(one);
            } else if !terms
                .any(|term| term.equal && term.label == "metadata.name" && term.value == name)
            {
                let why = "fieldSelector metadata.name doesn't match requested name";
                return Err(Status::bad_request(why));
            }
        }
        let cursor = registry.watch(resource, call.path.namespace.as_deref(), &options)?;
        let media = negotiate::streamed(self.maker.media)?;
        let encoder = EventEncoder::new(resource, media, self.maker.include()?);
        let body = WatchBody {
            cursor,
            encoder,
            timeout_seconds,
            bookmarks: options.allow_bookmarks,
        };
        let content_type = match media.format {
            Format::Protobuf => PROTOBUF_WATCH,
            Format::Json | Format::Yaml => JSON,
        };
        let body = ReplyBody::Watch(Box::new(body));
        Ok(Reply::of(200, content_type, body))
    }
}

fn watch_list_is_off() -> Status {
    use steersman_apimachinery::status::FieldError;
    let why =
        "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    let error = FieldError::forbidden("sendInitialEvents", why);
    Status::invalid_options("ListOptions", &[error])
}
