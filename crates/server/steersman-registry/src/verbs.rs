//! Room: the verbs of the server: get, list, watch, create, update, patch, apply, delete, and acts such as a binding.

mod read;
pub(crate) mod components;
pub(crate) mod deletion;
pub(crate) mod create;
mod waiting;
mod delete;
pub(crate) mod acts;
mod patch_checks;
mod update;
mod admit;
mod connect;
mod apply;
pub(crate) mod watch;
