//! Room: the requests to webhooks, and the meaning of their answers.
//!
//! This code does no input or output: a driver in `http` sends the requests.

mod call;
mod hook;
pub(crate) mod conversion;
mod review;

pub use call::{Answer, Call, Endpoint, Question};
pub use hook::{Hook, Occasion};
pub use review::{About, Verdict, read, request};
