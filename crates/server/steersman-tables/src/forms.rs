//! Words: the forms in which a client asks for Tables and metadata.

/// The version of `meta.k8s.io` in which a Table or a PartialObjectMetadata is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1Beta1,
}

impl MetaVersion {
    /// Returns the `apiVersion`.
    #[must_use]
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The part of each object that a Table carries: `includeObject`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// The metadata of the object.
    #[default]
    Metadata,
    /// The whole object.
    Object,
    /// No part of the object: rows have cells only.
    None,
}
