//! Room: the HTTP layer: parses requests into calls of verbs, and writes the answers.

mod negotiate;
mod path;
mod query;
mod deadline;
mod request_info;
mod gate;
mod jsonpath;
mod table;
mod events;
mod reply;
mod shape;
mod decode;
mod vain;
mod call;
mod acts;
mod discovery;
mod openapi_paths;
mod openapi;
mod openapi_v2;
mod verbs;
mod cache;
mod health;
mod metrics;
mod documents;
mod gzip;
mod body;
mod trust;
mod webhooks;
mod changes;
mod context;
mod admin;
mod chop;
mod watch;
mod receive;
mod service;

pub use body::{BodyError, ResponseBody};
pub use service::ApiService;

pub(crate) use context::{Clock, Context, Tuning};
