//! Room: the admission plugins that are built into a kube-apiserver.

mod limits;
mod topology;
mod usage;
mod quota;
mod security;
pub(crate) mod signing;
pub(crate) mod classes;
