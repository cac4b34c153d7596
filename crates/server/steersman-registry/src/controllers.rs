//! Room: the controllers that act within requests, the storage version migrator, and the objects
//! written at the start.

mod standard_objects;
mod bootstrap_policy;
mod service_accounts;
mod roles;
mod garbage_collector;
mod namespaces;
mod service_addresses;
mod run_controllers;
mod secret_usage;
mod startup_objects;
mod system_namespace;
pub(crate) mod storage_migrator;
