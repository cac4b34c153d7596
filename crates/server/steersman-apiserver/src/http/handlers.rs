//! Room: handlers of requests: the verbs on objects, watches, and the endpoints that control the server.

mod acts;
pub(crate) mod verbs;
pub(crate) mod admin;
pub(crate) mod watch;
pub(crate) mod future_reads;
pub(crate) mod stop;
