//! Room: admission of a write by policies and webhooks.

pub(crate) mod attributes;
pub(crate) mod attempt;
mod matching;
mod judge;
mod params;
mod change;
mod dispatch;
