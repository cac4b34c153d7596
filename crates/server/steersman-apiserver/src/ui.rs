//! Room: the server's page: objects with their history, the log of requests by client, and faults.

mod form;
mod route;
mod guard;
mod field_changes;
mod field_owners;
mod kinds;
mod revisions;
mod objects;
mod object;
mod requests;
mod faults;
mod markup;
mod news;
mod reply;
mod site;
mod serving;

pub use serving::UiServing;
