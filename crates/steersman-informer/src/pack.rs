//! Room: how the bodies of one kind are held: packed, and decoded within a budget.

mod codec;
mod samples;
mod training;
mod weight;
mod s3_fifo;
mod budget;
mod context;

pub use budget::Budget;

pub(crate) use budget::{Evictable, Evictions, SlotId};
pub(crate) use codec::{Broken, Dictionary, Packed};
pub(crate) use context::PackContext;
pub(crate) use samples::{KEPT_BACK, PackRatio, Samples, TrainedDictionary};
