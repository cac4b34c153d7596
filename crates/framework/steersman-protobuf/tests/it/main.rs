//! Compares both directions with what a real server sent, and with each other.
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

mod golden;
