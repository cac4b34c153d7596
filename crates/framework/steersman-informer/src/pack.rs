//! Room: packed bodies of one kind, their dictionary, and the budget for decoded ones.

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
