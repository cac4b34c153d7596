//! Replayed events equal the final state.
