//! Values that describe Kubernetes objects: kinds, keys, versions, selectors and owners. No tasks,
//! no clock, no network.
//!
//! ```
//! use k8s_openapi::api::apps::v1::Deployment;
//! use steersman_object::{Kind, LabelSelector, Object as _, ObjectKey, ListOptions};
//!
//! let kind = Kind::of::<Deployment>();
//! assert_eq!(kind.to_string(), "Deployment.v1.apps");
//!
//! let key = ObjectKey::namespaced("shop", "front");
//! let front = Deployment { metadata: key.to_meta(), ..Deployment::default() };
//! assert_eq!(front.key(), key);
//! assert_eq!(key.to_string(), "shop/front");
//!
//! let web = ListOptions::new().namespace("shop").labels(LabelSelector::label("app", "web"));
//! assert_eq!(web.selected_namespace(), Some("shop"));
//! ```
//!
//! All other crates use these types. A kind is a runtime value ([`Kind`]), so typed, dynamic and
//! metadata-only objects share one code path. One key type ([`ObjectKey`]) addresses objects of
//! namespaced and cluster-scoped kinds. Only [`ResourceVersion`] compares versions.
//!
//! # Reading order
//!
//! - [`kind`] has [`Kind`], [`Gvk`], [`Gvr`] and [`Scope`]: group, version, kind, plural and scope as a value.
//! - [`key`] has [`ObjectKey`], [`version`] [`ResourceVersion`], and [`uid`] [`Uid`].
//! - [`object`] has the traits [`Object`] and [`TypedObject`]. It is the only file that connects the traits of
//!   kube-core with Rust types.
//! - `as_object` has [`AsObject`], an object or an `Arc` of one, as methods take it by reference; `initial` has
//!   [`Initial`], what a new object is made from.
//! - [`whole`] has [`WholeObject`]: which types hold every field of their kind and may be sent as a whole.
//! - `built_in` has [`decodes_all_protobuf`]: which types every object in protobuf decodes as.
//! - `names` checks names of objects and labels.
//! - [`labels`] has [`Labels`], the compact form of labels in caches.
//! - [`selector`] has [`LabelSelector`], in the syntax of kubectl, and [`field_selector`] has [`FieldSelector`], in the
//!   syntax of the API server.
//! - [`list_options`] has [`ListOptions`], the objects that a list selects.
//! - [`shard`] has [`ShardSlot`] and [`SlotSet`], the parts of a kind's objects that replicas share, and [`ShardBy`].
//! - [`owner`] finds and builds owner references; [`owned_kinds`] has [`OwnedKinds`], the declaration of the kinds of
//!   children.
//! - [`policy_rule`] has [`PolicyRule`], a rule of a role.
//! - [`status_conditions`] sets and finds the conditions of a status.
//! - `json` has [`decode_json`] and [`decode_value`], which decode the JSON of an object, with errors that name the
//!   field; [`json_text`] and [`json_items`] read parts of JSON.
//! - `jitter` has [`Jitter`], random fractions for pauses that must not coincide; `duration` has [`parse_duration`],
//!   which reads durations as Go writes them.
//! - `report` has [`report()`], which formats an error and its causes in one line; `panics` has [`panic_text`], the
//!   text of a panic.

pub mod kind;
pub mod key;
pub mod version;
pub mod uid;
pub mod object;
pub mod as_object;
pub mod initial;
pub mod whole;
mod built_in;
#[doc(hidden)]
pub mod names;
pub mod labels;
pub mod selector;
pub mod field_selector;
pub mod list_options;
pub mod shard;
pub mod owner;
pub mod owned_kinds;
pub mod policy_rule;
pub mod status_conditions;
mod json;
mod jitter;
mod duration;
mod report;
mod panics;

pub use as_object::AsObject;
pub use built_in::decodes_all_protobuf;
pub use duration::parse_duration;
pub use field_selector::FieldSelector;
pub use initial::Initial;
pub use jitter::Jitter;
pub use json::{decode_json, decode_value, json_error_position, json_items, json_text};
pub use key::ObjectKey;
pub use kind::{Gvk, Gvr, Kind, Scope};
pub use labels::Labels;
pub use list_options::{CONTROLLER_UID, IndexKey, ListOptions, OWNER_UID};
pub use object::{Object, TypeInfo, TypedObject};
pub use owned_kinds::OwnedKinds;
pub use panics::{panic_text, task_panic_text};
pub use policy_rule::PolicyRule;
pub use report::{Report, report};
pub use selector::{LabelSelector, Required};
pub use shard::{ShardBy, ShardSlot, SlotSet, SlotSetError};
pub use uid::Uid;
pub use version::ResourceVersion;
pub use whole::WholeObject;
