//! The attribute [`versioned`](macro@versioned), for the versions of a custom resource from one declaration, and the
//! derives of kinds, [`CustomResource`] and [`KubeSchema`].
//!
//! ```
//! #[steersman::versioned(v1beta1, v1)]
//! mod website {
//!     use schemars::JsonSchema;
//!     use serde::{Deserialize, Serialize};
//!     use steersman::CustomResource;
//!
//!     #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
//!     #[kube(group = "web.example.com", kind = "Website", namespaced)]
//!     pub struct WebsiteSpec {
//!         pub image: String,
//!         #[versioned(renamed(v1, from = count))]
//!         pub replicas: i32,
//!     }
//! }
//!
//! # fn main() {
//! let old = serde_json::json!({
//!     "apiVersion": "web.example.com/v1beta1", "kind": "Website", "metadata": {"name": "a"},
//!     "spec": {"image": "nginx", "count": 2},
//! });
//! let new = website::conversions().convert(&old, "web.example.com/v1").unwrap();
//! assert_eq!(new["spec"]["replicas"], 2);
//! assert_eq!(website::crd().spec.versions.len(), 2);
//! # }
//! ```
//!
//! Operators use it as `steersman::versioned`.
//!
//! # Reading order
//!
//! - `version_name` orders the names of versions.
//! - `arguments` are those of the attribute on the module.
//! - `history` reads and checks the history of a field or variant.
//! - `kind` reads the attributes of kube.
//! - `declaration` is the whole module with its types.
//! - `scope` rewrites paths and visibilities for submodules.
//! - `render` declares a type in one version.
//! - `boundaries` decides between which versions a type differs.
//! - `wire_name` has the names of fields in JSON, for errors.
//! - `convert` has the conversions between neighbouring versions. They call
//!   `crates/framework/steersman-webhook/src/conversion/steps.rs`.
//! - `expand` puts the generated module together.
//! - `forward` calls the derives of kube with the crates of the facade, so that a kind names no crates.

mod version_name;
mod arguments;
mod history;
mod kind;
mod declaration;
mod scope;
mod render;
mod boundaries;
mod wire_name;
mod convert;
mod expand;
mod forward;

use proc_macro::TokenStream;

/// Declares all versions of a custom resource by the history of its fields.
///
/// The attribute stands on a module with the types of the kind in their newest form. It lists the versions, oldest
/// first. Each field and variant with a history states it, and the attribute generates a submodule per version, the
/// conversions, and the definition with all versions:
///
/// ```
/// #[steersman::versioned(v1alpha1, v1beta1, v1)]
/// pub mod website {
///     use schemars::JsonSchema;
///     use serde::{Deserialize, Serialize};
///     use steersman::CustomResource;
///
///     #[derive(CustomResource, Clone, Debug, Deserialize, JsonSchema, Serialize)]
///     #[kube(group = "web.example.com", kind = "Website", namespaced, status = "WebsiteStatus")]
///     #[serde(rename_all = "camelCase")]
///     pub struct WebsiteSpec {
///         pub image: String,
///         #[versioned(renamed(v1, from = count))]
///         pub replicas: i32,
///         #[versioned(added(v1beta1))]
///         pub tls: Option<Tls>,
///         #[versioned(changed(v1, from = String, upgrade = seconds, downgrade = text))]
///         pub timeout_seconds: u32,
///         #[versioned(deprecated(v1beta1, note = "use tls"))]
///         pub certificate: Option<String>,
///         #[versioned(removed(v1))]
///         pub theme: Option<String>,
///     }
///
///     #[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
///     pub struct Tls {
///         pub secret: String,
///         #[versioned(added(v1, default = Mode::Strict))]
///         pub mode: Mode,
///     }
///
///     #[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
///     pub enum Mode {
///         Strict,
///         Lax,
///     }
///
///     #[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
///     pub struct WebsiteStatus {
///         pub ready: bool,
///     }
///
///     fn seconds(text: &str) -> Result<u32, std::num::ParseIntError> {
///         text.trim_end_matches('s').parse()
///     }
///
///     fn text(seconds: &u32) -> String {
///         format!("{seconds}s")
///     }
/// }
///
/// # fn main() {
/// let old = serde_json::json!({
///     "apiVersion": "web.example.com/v1alpha1", "kind": "Website", "metadata": {"name": "a"},
///     "spec": {"image": "nginx", "count": 2, "timeoutSeconds": "30s"},
/// });
/// let new = website::conversions().convert(&old, "web.example.com/v1").unwrap();
/// assert_eq!(new["spec"]["replicas"], 2);
/// assert_eq!(new["spec"]["timeoutSeconds"], 30);
///
/// let definition = website::crd();
/// assert!(definition.spec.versions[0].storage);
/// assert_eq!(definition.spec.versions[0].name, "v1");
///
/// // A type that is the same in all versions is one type.
/// let mode: website::v1::Mode = website::v1alpha1::Mode::Strict;
/// # let _ = mode;
/// # }
/// ```
///
/// # What is generated
///
/// - A submodule per version with the types of that version: `website::v1alpha1::Website`, `website::v1::WebsiteSpec`.
///   A type that does not differ between neighbouring versions is one Rust type, which the older versions re-export.
///   A type that never differs stands in the module itself. A struct with `#[kube(…)]` is another type in each version.
/// - An implementation of `Spoke` for each version but the hub. Conversions go step by step through the versions
///   between. An error names the field, such as `spec.tls.hosts[2]`.
/// - `fn conversions() -> Conversions` with all kinds of the module; `Conversions::merge` joins those of several
///   modules.
/// - `fn crd() -> CustomResourceDefinition` with all versions, or `crds()` for several kinds.
/// - The argument of kube that differs per version: `version`.
///
/// Other items of the module, such as functions and imports, stay where they are, and the submodules see them.
///
/// # Arguments of the module
///
/// - The versions, oldest first. Attributes of kube in parentheses after a version are those of all kinds in this
///   version: `v1alpha1(deprecated = "use v1", served = false)`.
/// - `hub = v1beta1`: the version through which the others are converted. Default: the last one.
/// - `stored = v1beta1`: the version in which the API server stores objects. Default: the hub.
/// - `tests`: generates tests that check the definition with its rules, and convert 1000 random objects between all
///   pairs of versions; `tests = 10_000` sets the number. The crate `steersman-harness` is then a dev-dependency.
/// - `crates(steersman = …, harness = …)`: the paths of these crates. Defaults: `::steersman` and
///   `::steersman_harness`.
///
/// # History of a field
///
/// Each entry names the version that brings the change. One attribute may have several entries.
///
/// - `added(v1beta1)`: older versions do not have the field. An object that comes from there has the value of
///   `Default::default()`, or of `added(v1beta1, default = expression)`.
/// - `removed(v1)`: this version and newer ones do not have the field. An object that comes from there has the value
///   of `Default::default()`, or of `removed(v1, default = expression)`.
/// - `renamed(v1, from = former_name)`.
/// - `changed(v1, from = FormerType, upgrade = function, downgrade = function)`: each function takes a reference and
///   returns the other value, or a `Result` with it.
/// - `deprecated(v1beta1, note = "use tls")`: the field stays, and its description says so. The Rust field is not
///   `#[deprecated]`, because the operator reads the field as long as it exists.
/// - `only(v1alpha1, v1beta1, serde(default), …)`: attributes that only these versions have.
///
/// Variants have the same entries without `changed`. A variant that a version does not have needs another one to show:
/// `added(v1, instead = Variant)`; the default is that of a derived `Default`. Structs and enums have `only`, such as
/// `#[versioned(only(v1alpha1, kube(printcolumn(…))))]` for the column of a renamed field.
///
/// Fields with versioned types are converted element by element through `Option`, `Vec`, `Box`,
/// `BTreeMap` and `HashMap`.
///
/// # Errors
///
/// A history that contradicts itself or the versions does not compile; the message names the field and the way out.
#[proc_macro_attribute]
pub fn versioned(arguments: TokenStream, module: TokenStream) -> TokenStream {
    let expanded = expand::expand(arguments.into(), module.into());
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

/// Makes a custom resource of a struct that is its spec.
///
/// The derive is that of `kube-derive`, with the same arguments in `#[kube(…)]`. It finds the crates that it needs in
/// `steersman`, so a kind needs no `crates(…)`. A kind that has `crates(…)` names all of them itself.
///
/// A crate that depends on the facade under another name adds `extern crate other_name as steersman;`.
#[proc_macro_derive(CustomResource, attributes(kube))]
pub fn custom_resource(input: TokenStream) -> TokenStream {
    forward::custom_resource(&input.into()).into()
}

/// Derives the schema of a struct with CEL rules, written as `#[x_kube(validation = "…")]`.
///
/// The derive is that of `kube-derive`. As with [`CustomResource`], a struct needs no `crates(…)`.
#[proc_macro_derive(KubeSchema, attributes(x_kube, schemars, validate))]
pub fn kube_schema(input: TokenStream) -> TokenStream {
    forward::schema(&input.into()).into()
}

/// Removes an item: the copy of a type that a derive has read.
#[doc(hidden)]
#[proc_macro_attribute]
pub fn discard(_: TokenStream, _: TokenStream) -> TokenStream {
    TokenStream::new()
}

#[cfg(test)]
mod tests;
