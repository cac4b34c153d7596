//! Room: the report of an exploration: its words, and how it is printed for terminals, CI systems and browsers.

mod explore_report;
mod kinds;
mod summary;
mod markup;
mod junit;
mod timeline;
mod html_story;
mod html;

pub use self::explore_report::{DesiredReport, ExploreReport, PointOutcome, PointReport};

#[cfg(test)]
mod tests;
