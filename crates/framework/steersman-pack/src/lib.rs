//! A store of packed bodies: many small JSON documents of one kind in little memory, and the decoded forms of those
//! that are read again and again.
//!
//! Every body is packed with zstd. Once a kind has a few hundred bodies, a dictionary is trained with samples of them,
//! which makes Kubernetes objects several times smaller than packing alone does. Decoded forms are cached within a
//! [`Budget`] of bytes, which evicts them by S3-FIFO; their size is estimated from the types that decode them.
//!
//! ```
//! use steersman_pack::{Budget, PackContext};
//!
//! let context = PackContext::new(Budget::bytes(64 << 20), true);
//! let json = br#"{"metadata":{"name":"web","labels":{"app":"web","tier":"web"}}}"#;
//! context.add_body();
//! let (packed, is_training_due) = context.pack(json);
//! assert!(packed.size() <= json.len() && !is_training_due);
//! assert_eq!(context.unpack(&packed, <[u8]>::to_vec).unwrap(), json);
//! ```
//!
//! The crate knows neither Kubernetes nor tasks: its user decides when to train (with [`PackContext::samples`] and
//! [`Samples::train`], on a thread that may take a tenth of a second), and owns the bodies, which implement
//! [`Evictable`].
//!
//! # Reading order
//!
//! - `codec` packs and unpacks one body; [`Packed`] is the result.
//! - `samples` collects samples and trains a [`Dictionary`]; `training` decides when, and whether the dictionary is
//!   kept.
//! - `weight` estimates the memory of a decoded form.
//! - `s3_fifo` decides which decoded forms are evicted; `budget` has [`Budget`], the handle of it.
//! - `context` connects these for the bodies of one kind ([`PackContext`]).

mod codec;
mod samples;
mod training;
mod weight;
mod s3_fifo;
mod budget;
mod context;

pub use budget::Budget;
pub use codec::{Broken, Codec, Dictionary, Packed};
pub use context::PackContext;
pub use s3_fifo::{Evictable, Evictions, SlotId};
pub use samples::{KEPT_BACK, PackRatio, Samples, TrainedDictionary};
