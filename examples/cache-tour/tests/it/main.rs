//! The tour from the outside.

mod output;
