//! Room: how the bodies of one kind are held: packed, and decoded within a budget.

mod codec;
mod samples;
mod training;
mod weight;
mod ring;
mod budget;
mod shelf;

pub use budget::Budget;

pub(crate) use budget::{Holder, Leavers, Place};
pub(crate) use codec::{Broken, Dictionary, Packed};
pub(crate) use samples::{KEPT_BACK, Lesson, Samples, Share};
pub(crate) use shelf::Shelf;
