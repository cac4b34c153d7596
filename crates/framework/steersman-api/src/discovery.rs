//! Room: the kinds that a server serves, with their plurals.

mod document;
mod table;
mod mapper;

pub use document::ServedResource;
pub use mapper::{Mapper, ServedKinds};
