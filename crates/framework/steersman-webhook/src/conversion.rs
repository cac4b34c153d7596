//! Words: the versions of a kind, and the trait that converts between two versions.

mod kept_fields;
mod versions;
mod review;
mod steps;

pub use steps::{
    ConversionResult, ConvertTo, FieldConversionError, changed, merged_definition, nested,
};
pub use versions::{ConversionError, Conversions};

pub(crate) use review::answer;

use steersman_object::TypedObject;

/// A version of a kind that is converted through another version, the hub.
///
/// ```
/// # use kube_derive::CustomResource;
/// # use schemars::JsonSchema;
/// # use serde::{Deserialize, Serialize};
/// # #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
/// # #[kube(group = "example.com", version = "v1", kind = "Site", crates(kube_core = "kube_core"))]
/// # pub struct SiteSpec { host: String }
/// # mod v1alpha1 {
/// #     use kube_derive::CustomResource;
/// #     use schemars::JsonSchema;
/// #     use serde::{Deserialize, Serialize};
/// #     #[derive(CustomResource, Serialize, Deserialize, Clone, Debug, JsonSchema)]
/// #     #[kube(group = "example.com", version = "v1alpha1", kind = "Site", crates(kube_core = "kube_core"))]
/// #     pub struct SiteSpec { pub domain: String }
/// # }
/// use steersman_webhook::{BoxError, Conversions, Spoke};
///
/// impl Spoke for v1alpha1::Site {
///     type Hub = Site;
///
///     fn to_hub(&self) -> Result<Site, BoxError> {
///         let spec = SiteSpec { host: self.spec.domain.clone() };
///         Ok(Site { metadata: self.metadata.clone(), spec })
///     }
///
///     fn from_hub(hub: &Site) -> Result<Self, BoxError> {
///         let spec = v1alpha1::SiteSpec { domain: hub.spec.host.clone() };
///         Ok(Self { metadata: hub.metadata.clone(), spec })
///     }
/// }
///
/// let conversions = Conversions::new().hub::<Site>().spoke::<v1alpha1::Site>();
/// let old = serde_json::json!({
///     "apiVersion": "example.com/v1alpha1", "kind": "Site", "metadata": {"name": "a"}, "spec": {"domain": "a.org"},
/// });
/// let new = conversions.convert(&old, "example.com/v1").unwrap();
/// assert_eq!(new["spec"]["host"], "a.org");
/// ```
///
/// Two spokes are converted through the hub. A conversion copies the metadata; only labels and annotations may differ.
/// Fields that one version cannot hold need no code: see [`Conversions`].
pub trait Spoke: TypedObject {
    /// The hub: the version that can hold the fields of all other versions, usually the newest.
    type Hub: TypedObject;

    /// Converts to the hub.
    ///
    /// # Errors
    ///
    /// Why the object cannot be converted. The API server then cannot serve the object in the other version.
    fn to_hub(&self) -> Result<Self::Hub, BoxError>;

    /// Converts from the hub.
    ///
    /// # Errors
    ///
    /// Why the object cannot be converted.
    fn from_hub(hub: &Self::Hub) -> Result<Self, BoxError>;
}

/// The error that code of an operator returns.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;
