//! Words: what a key of the queue must be able to do.

use std::fmt::Debug;
use std::hash::Hash;

/// What the queue holds: small, comparable, cheap to clone.
///
/// Implemented for every type with these bounds; nobody implements it by hand.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for T {}
