//! Room: the HTML of each view. Every text of an object or a request is escaped by the templates.

mod layout;
mod revisions;
mod kinds;
mod objects;
mod object;
mod requests;
mod faults;

pub(crate) use faults::faults;
pub(crate) use kinds::kinds;
pub(crate) use layout::{PageFrame, message};
pub(crate) use object::object;
pub(crate) use objects::objects;
pub(crate) use requests::{request, requests};
pub(crate) use revisions::changes;
