//! Words: the labels and annotations of Secrets and namespaces.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use steersman::k8s_openapi;
use steersman::kube_core::PartialObjectMeta;
use steersman::object::Object;

/// The metadata of a Secret.
pub type SecretMeta = PartialObjectMeta<Secret>;

/// The metadata of a Namespace.
pub type NamespaceMeta = PartialObjectMeta<Namespace>;

/// The label of all Secrets that concern the operator: [`SOURCE`] or [`COPY`].
pub const ROLE: &str = "replicate.example.com/role";
/// The role of a Secret to copy.
pub const SOURCE: &str = "source";
/// The role of a copy.
pub const COPY: &str = "copy";

/// The annotation of a source with the namespaces of its copies, divided by commas; `team-*` stands for all
/// namespaces that begin with `team-`.
pub const NAMESPACES: &str = "replicate.example.com/namespaces";

/// The annotation of a copy with the namespace and name of its source.
pub const COPY_OF: &str = "replicate.example.com/copy-of";

/// The label of a namespace that receives copies, with the value `true`.
pub const ACCEPT: &str = "replicate.example.com/accept";

/// Returns the value of a label.
pub fn label<'a>(object: &'a impl Object, name: &str) -> Option<&'a str> {
    Some(object.meta().labels.as_ref()?.get(name)?.as_str())
}

/// Returns the value of an annotation.
pub fn annotation<'a>(object: &'a impl Object, name: &str) -> Option<&'a str> {
    Some(object.meta().annotations.as_ref()?.get(name)?.as_str())
}

/// Returns whether a Secret is to be copied.
pub fn is_source(secret: &impl Object) -> bool {
    label(secret, ROLE) == Some(SOURCE)
}

/// Returns the namespace and name of the source of a copy; `None` for other Secrets.
pub fn source_of(secret: &impl Object) -> Option<&str> {
    let is_copy = label(secret, ROLE) == Some(COPY);
    annotation(secret, COPY_OF).filter(|_| is_copy)
}
