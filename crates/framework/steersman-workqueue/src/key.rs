//! Words: the bounds of a key's type.

use std::fmt::Debug;
use std::hash::Hash;

/// A key of the queue: small, comparable, cheap to clone.
///
/// Every type with these bounds implements the trait.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<T: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for T {}
