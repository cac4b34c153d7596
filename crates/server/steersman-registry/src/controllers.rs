//! Room: the controllers that run inside write requests, the storage version migrator, and the objects that a starting
//! server writes.

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
