//! Room: the HTTP layer: parses requests into calls of verbs (get, list, create and so on), and writes the answers.

mod requests;
mod responses;
mod documents;
mod webhooks;
mod changes;
mod context;
mod handlers;
mod service;

pub use responses::body::{BodyError, ResponseBody};
pub use service::ApiService;

pub(crate) use context::{Clock, Context, Tuning};
pub(crate) use requests::auth::Caller;
pub(crate) use requests::query::Query;
