//! Room: learns the state that an undisturbed operator reaches, and compares the states of other worlds with it.
//!
//! A state passes these modules in this order: `plain` drops what every write changes, `renaming` numbers the objects
//! with generated names, `holders` replaces uids, addresses and versions by the names of their objects, `lists` sorts
//! lists without order, and `pattern` hides the fields that differ from run to run.

mod texts;
mod lists;
mod holders;
mod generated;
mod plain;
mod varying_paths;
mod name_graph;
mod renaming;
mod pattern;
mod expected;
#[cfg(test)]
mod tests;

pub use expected::Expected;
