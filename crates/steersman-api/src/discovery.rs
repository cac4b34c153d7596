//! Room: which kinds a server serves, and under which plural.

mod document;
mod table;
mod mapper;

pub use document::Served;
pub use mapper::{Everything, Mapper};
