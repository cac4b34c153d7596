//! Tables of Kubernetes' own kinds and their types, and the checks of values against schemas.
//!
//! A part of the embedded API server (`steersman-apiserver`): its names may change with any version.

pub mod resource;
mod formats;
pub mod types;
pub mod validate;
pub mod custom;
mod name_rules;
pub mod builtin;
pub mod subresources;
pub mod events;
pub mod autoscaling;
pub mod signing_request;
pub mod authorities;
