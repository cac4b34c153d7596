//! Room: the controllers in write requests, the storage version migrator, and the objects of a starting server.

mod standard_objects;
mod bootstrap_policy;
mod service_accounts;
mod roles;
mod garbage_collector;
mod namespaces;
mod service_addresses;
mod run_controllers;
mod startup_objects;
pub(crate) mod storage_migrator;
