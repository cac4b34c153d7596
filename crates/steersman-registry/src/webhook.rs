//! Room: what is asked of webhooks, and what their answers mean.
//!
//! Nothing in here waits: who sends a question is the driver's business.

mod call;
mod hook;
pub(crate) mod conversion;
mod review;

pub use call::{Answer, Call, Endpoint, Question};
pub use hook::{Hook, Occasion};
pub use review::{About, Verdict, read, request};
