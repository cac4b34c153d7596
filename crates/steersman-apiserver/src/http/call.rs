//! Words: one request on objects, and why it may be refused.

use std::sync::Arc;

use steersman_registry::WriteOptions;
use steersman_registry::auth::User;
use steersman_text::status::Status;

use crate::faults::Verb;
use crate::http::path::ObjectPath;
use crate::http::query::Query;

/// A request on objects, without its body.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    /// What the path names.
    pub(crate) path: &'a ObjectPath,
    /// What is to be done; `None` for a method that no path takes.
    pub(crate) verb: Option<Verb>,
    /// The query.
    pub(crate) query: &'a Query,
    /// The `Accept` header.
    pub(crate) accept: Option<&'a str>,
    /// The `Content-Type` header, empty where there is none.
    pub(crate) content_type: &'a str,
    /// The `User-Agent` header, empty where there is none.
    pub(crate) user_agent: &'a str,
    /// Who asks.
    pub(crate) user: &'a Arc<User>,
    /// Whether `sendInitialEvents` is honoured.
    pub(crate) watch_list: bool,
}

impl Call<'_> {
    pub(crate) fn write_options(&self) -> WriteOptions {
        let mut options = self.query.write_options();
        options.user_agent = Some(self.user_agent.to_owned());
        options.user = Arc::clone(self.user);
        options
    }
}

/// Which verb a method is on this path. `None` where no path takes the method.
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

/// Why a request was refused: most are Statuses, a path that nothing serves is a page of text.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A Status.
    Status(Box<Status>),
    /// The text page.
    PageNotFound,
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}
