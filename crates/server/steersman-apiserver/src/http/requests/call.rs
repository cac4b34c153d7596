//! Words: one request on objects, and the ways to refuse it.

use std::sync::Arc;

use steersman_apimachinery::status::Status;
use steersman_auth::User;
use steersman_registry::WriteOptions;

use crate::faults::Verb;
use crate::http::requests::path::ObjectPath;
use crate::http::requests::query::Query;

#[derive(Debug)]
pub(crate) struct ResourceCall<'a> {
    pub(crate) path: &'a ObjectPath,
    pub(crate) verb: Option<Verb>,
    /// The number of the request in the log.
    pub(crate) sequence: u64,
    pub(crate) query: &'a Query,
    pub(crate) accept: Option<&'a str>,
    /// The `Content-Type` header; empty if absent.
    pub(crate) content_type: &'a str,
    /// The `User-Agent` header; empty if absent.
    pub(crate) user_agent: &'a str,
    pub(crate) user: &'a Arc<User>,
    pub(crate) watch_list: bool,
}

impl ResourceCall<'_> {
    pub(crate) fn write_options(&self) -> WriteOptions {
        let mut options = self.query.write_options();
        options.user_agent = Some(self.user_agent.to_owned());
        options.user = Arc::clone(self.user);
        options
    }
}

/// Returns the verb of an HTTP method on this path; `None` if the path does not support the method.
pub(crate) fn verb_of(method: &http::Method, path: &ObjectPath, query: &Query) -> Option<Verb> {
    let named = path.name.is_some();
    match method.as_str() {
        method if path.watch_prefix && method != "GET" => None,
        "GET" if path.watch_prefix || (!named && query.is_watch()) => Some(Verb::Watch),
        "GET" if named => Some(Verb::Get),
        "GET" => Some(Verb::List),
        "POST" => Some(Verb::Create),
        "PUT" => Some(Verb::Update),
        "PATCH" => Some(Verb::Patch),
        "DELETE" if named => Some(Verb::Delete),
        "DELETE" => Some(Verb::DeleteCollection),
        _ => None,
    }
}

/// The refusal of a request: usually a Status, or a page of text (404) for a path that nothing serves.
#[derive(Debug)]
pub(crate) enum HttpRefusal {
    Status(Box<Status>),
    PageNotFound,
}

impl From<Status> for HttpRefusal {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
