//! Copies ConfigMaps with the label `copy=yes` from one cluster to others.
//!
//! - [`copier`] has the controller.
//! - [`demo`] runs it on embedded API servers, and adds and removes a cluster meanwhile.

pub mod copier;
pub mod demo;
