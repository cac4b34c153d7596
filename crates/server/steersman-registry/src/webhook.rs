//! Room: the requests to webhooks, and what their answers mean.
//!
//! Nothing here does input or output: the caller of the verbs sends the requests.

mod call;
mod hook;
pub(crate) mod conversion;
mod review;

pub use call::{CallResponse, PendingCalls, WebhookAddress, WebhookCall};
pub(crate) use hook::{RegisteredWebhook, review_version};
pub(crate) use review::{KindName, ResourceName, ReviewRequest, WebhookDecision, body, read};
