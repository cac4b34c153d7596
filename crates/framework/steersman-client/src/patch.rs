//! Room: the bodies of patches and of applies.

pub(crate) mod diff;
pub(crate) mod strategic;
pub(crate) mod change;
pub(crate) mod status_field;
pub(crate) mod document;
pub(crate) mod extract;
