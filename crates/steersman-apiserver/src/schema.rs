//! Room: which kinds exist, built in or installed, and what a valid object of each looks like.

mod resource;
mod formats;
pub(crate) mod types;
mod validate;
pub(crate) mod custom;
mod name_rules;
mod builtin;
mod subresources;
pub(crate) mod events;
pub(crate) mod autoscaling;
pub(crate) mod signing_request;
mod authorities;
pub(crate) mod kinds;
pub(crate) mod crd;
pub(crate) mod defaults;

pub(crate) use builtin::built_in;
pub use crd::compare_versions;
pub use resource::{
    FieldRefusal, Generation, MetadataCheck, MetadataChecks, PrinterColumn, Resource, ScalePaths,
    SelectableField, StatusMetadata, StorageKey,
};
pub use steersman_cel::structural::{Additional, Rules, Structural};
pub use steersman_text::names::NameRule;
pub use subresources::Act;
pub(crate) use subresources::further;
pub(crate) use validate::type_name;
