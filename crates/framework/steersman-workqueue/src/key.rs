//! Words: the bounds of a key.

use std::fmt::Debug;
use std::hash::Hash;

/// A key of the queue: small, comparable, cheap to clone.
///
/// Implemented for every type with these bounds.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for T {}
