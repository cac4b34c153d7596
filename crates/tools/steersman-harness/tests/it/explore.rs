//! Tests that an exploration finds planted bugs: each is a small operator with one bug of its class.
//!
//! The mended form of the operator differs in a few lines. The same scenario finds nothing in it.

mod answers;
mod conflicts;
mod crashes;
mod deletions;
mod desired_states;
mod drift;
mod leaders;
mod memory;
mod ownership;
mod reference;
mod stale;
mod support;
mod watches;
