//! Room: builds the requests to webhooks, and reads their responses.
//!
//! Nothing here does input or output: the program that runs the verbs sends the requests.

mod call;
mod hook;
pub(crate) mod conversion;
mod review;

pub use call::{CallResponse, PendingCalls, WebhookAddress, WebhookCall};
pub(crate) use hook::{RegisteredWebhook, review_version};
pub(crate) use review::{KindName, ResourceName, ReviewRequest, WebhookDecision, body, read};
