//! Room: kinds that other programs define. Their Rust types are generated from their definitions.

mod docs;
mod rust_names;
mod example;
mod definition;
mod rust_type;

pub(crate) use self::definition::{EXTERNAL, ExternalKind, find, present};
pub(crate) use self::rust_type::source;
