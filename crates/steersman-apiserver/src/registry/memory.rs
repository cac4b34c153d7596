//! Words: what a verb that is running knows of webhooks.

use std::collections::HashMap;

use crate::webhook::{Answer, Call};

/// What a verb that is running knows of webhooks.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whether somebody stands by who can ask.
    pub(super) attended: bool,
    pub(super) answers: HashMap<String, Answer>,
    /// How often a webhook was asked, by its place in the request.
    pub(super) asked: HashMap<String, usize>,
    /// What is to be asked.
    pub(super) pending: Vec<Call>,
    /// The revision at which a list that had to ask goes on.
    pub(super) pinned: Option<u64>,
    /// What the webhooks tell the client.
    pub(super) warnings: Vec<String>,
}
