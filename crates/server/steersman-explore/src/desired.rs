//! Room: the desired states that a scenario does not name: changes of an object, generated from the schema of its kind.

mod texts;
mod values;
mod schema_walk;
mod change;
#[cfg(test)]
mod tests;

pub(crate) use change::{DesiredChange, Target, restore, targets};
