//! Room: the requests to webhooks, and the meaning of their answers.
//!
//! This code does no input or output: the driver of the verbs sends the requests.

mod call;
mod hook;
pub(crate) mod conversion;
mod review;

pub use call::{CallResponse, PendingCalls, WebhookAddress, WebhookCall};
pub(crate) use hook::{RegisteredWebhook, review_version};
pub(crate) use review::{KindName, ResourceName, ReviewRequest, WebhookDecision, body, read};
