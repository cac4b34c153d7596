//! Room: the controllers that act within requests, the storage version migrator, and the objects
//! written at the start.

mod bootstrap_policy;
mod service_accounts;
mod roles;
mod garbage_collector;
mod namespaces;
mod run_controllers;
mod standard_objects;
pub(crate) mod service_addresses;
mod startup_objects;
mod system_namespace;
pub(crate) mod storage_migrator;
