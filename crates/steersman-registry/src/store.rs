//! Room: objects, their past, and one revision counter for all of them.
//!
//! Invariants: one revision is one change (SRV-STORE-1); a stored object is shared and never
//! mutated (SRV-STORE-2); the log is bounded (SRV-STORE-3); an open position expires only when a
//! change of its own storage was forgotten (SRV-STORE-4); lists are ordered by the key at which
//! their pages go on (SRV-STORE-5); a revision is written as JSON once, whoever is sent it
//! (SRV-STORE-6), and all but the newest objects are kept as JSON alone
//! (SRV-STORE-7); the server works with objects without their managedFields, which are kept as they
//! were written (SRV-STORE-8).

mod head;
mod decoded;
mod object;
mod machine;

pub use decoded::{Decoded, Draft};
pub use head::Field;
pub use machine::{Change, Store, Unreadable};
pub use object::{Made, Stored};
