//! Words: `Resource`, the facts about one served kind for routing, discovery and the registry.

use std::sync::Arc;

use serde_json::Value;
use steersman_apimachinery::names::NameRule;
use steersman_apimachinery::status::GroupResource;
use steersman_cel::Rules;
use steersman_cel::structural::Structural;

use super::custom_schema::CustomSchema;
use super::stored_schemas::StoredSchemas;

/// Identifies the storage of a resource's objects, which all served versions of a kind share.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageKey(Arc<str>);

impl StorageKey {
    /// Returns the storage of `plural` in `group`.
    #[must_use]
    pub fn new(group: &str, plural: &str) -> Self {
        Self(format!("{plural}.{group}").into())
    }

    /// Parses a storage name that [`as_str`](Self::as_str) returned.
    pub fn parse(text: &str) -> Self {
        Self(text.into())
    }

    /// Returns the name in snapshots: plural and group, separated by a dot.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One resource in one served version.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about a kind, as discovery lists them"
)]
pub struct Resource {
    /// API group, empty for core.
    pub group: String,
    /// Served version, for instance `v1`.
    pub version: String,
    /// Kind, for instance `Deployment`.
    pub kind: String,
    /// Kind of the list, for instance `DeploymentList`.
    pub list_kind: String,
    /// Plural name as in paths.
    pub plural: String,
    /// Singular name as in discovery.
    pub singular: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Groups of resources for kubectl, for instance `all`.
    pub categories: Vec<String>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Verbs of the main resource, in discovery's order.
    pub verbs: &'static [&'static str],
    /// Whether there is a `/status`.
    pub status: bool,
    /// The treatment of metadata on a write to `/status`.
    pub status_metadata: StatusMetadata,
    /// The checks of metadata on an update.
    pub metadata_checks: MetadataChecks,
    /// Whether there is a `/scale`, and where its numbers are.
    pub scale: Option<ScalePaths>,
    /// A custom resource's printer columns; empty for built-in kinds, which have tables of their own.
    pub columns: Vec<PrinterColumn>,
    /// Field labels beside `metadata.name` and `metadata.namespace` that a field selector may use.
    pub fields: Vec<SelectableField>,
    /// The message for an unknown field label in a field selector.
    pub field_refusal: FieldRefusal,
    /// The schema of a custom resource version; absent for built-in kinds.
    pub schema: Option<Arc<CustomSchema>>,
    /// The schemas of all versions of a definition; empty for built-in kinds.
    pub stored_schemas: StoredSchemas,
    /// The `spec.conversion.webhook` of a definition with a conversion webhook.
    pub conversion: Option<Arc<Value>>,
    /// Whether the definition is being deleted, so that creates are refused.
    pub terminating: bool,
    /// Whether the kind is one of Kubernetes' own.
    pub built_in: bool,
    /// The rule by which `metadata.generation` grows.
    pub generation: Generation,
    /// Whether a delete returns the object instead of a `Status`.
    pub delete_returns_object: bool,
    /// Whether a PUT of an absent object creates it.
    pub create_on_update: bool,
    /// Whether a PUT without a resource version is accepted.
    pub unconditional_update: bool,
    /// The rule for names.
    pub names: NameRule,
    /// The storage of the objects.
    pub storage: StorageKey,
    /// The version in which objects are stored.
    pub storage_version: String,
    /// The names of all versions of a definition, served or not; empty for built-in kinds.
    pub definition_versions: Arc<[String]>,
    /// The deprecation warning that clients of this version receive, if it is deprecated.
    pub deprecation_warning: Option<String>,
    /// The revision since which the definition of a custom resource has its present spec and
    /// accepted names; 0 for built-in kinds. Watches that began with an earlier edition end.
    pub edition: u64,
}

impl Resource {
    /// Returns the compiled schema of a custom resource version; `None` for built-in kinds.
    pub fn structural(&self) -> Option<&Structural> {
        Some(self.schema.as_ref()?.structural())
    }

    /// Returns the compiled validation rules of a custom resource version; `None` if it has none.
    pub fn rules(&self) -> Option<&Rules> {
        self.schema.as_ref()?.rules()
    }

    /// Returns whether this is the built-in kind of the given group, in any version.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        self.built_in && self.group == group && self.kind == kind
    }

    /// Returns the plural with the group, for messages.
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource::new(&self.group, &self.plural)
    }

    /// Returns the kind with its group, for messages about invalid objects.
    pub fn group_kind(&self) -> GroupResource<'_> {
        // Events are stored in the form of the core group, so messages name that group.
        let event = self.built_in && self.kind == "Event";
        let group = if event { "" } else { self.group.as_str() };
        GroupResource::new(group, &self.kind)
    }

    /// Returns the `apiVersion` of objects: `v1` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// Returns whether the other resource has the same `apiVersion`.
    pub fn has_version_of(&self, other: &Self) -> bool {
        self.group == other.group && self.version == other.version
    }
}

/// The rule by which `metadata.generation` grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The server does not manage the generation and stores the value that the client sends.
    Unmanaged,
    /// Starts at 1 and grows with every change of `spec`.
    Spec,
    /// Starts at 1 and grows with every change outside `metadata` and, where the kind has a status subresource,
    /// `status`.
    OutsideMetadata,
    /// As [`Self::OutsideMetadata`], and grows with every change of the labels.
    OutsideMetadataOrLabels,
}

/// The message format for an unknown field label, which depends on the group version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldRefusal {
    /// `"x" is not a known field selector: only "metadata.name", "metadata.namespace"`.
    OnlyMetadata,
    /// `field label not supported: x`.
    NotSupported,
    /// `field label "x" not supported for Job`.
    NotSupportedForKind,
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x`.
    NotSupportedForVersion,
}

/// The treatment of metadata on a write to the status subresource (SRV-KIND-2).
///
/// Source: `PrepareForUpdate` and `GetResetFields` of the kinds' status strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusMetadata {
    /// Metadata is written as by a write to the object.
    Taken,
    /// The labels stay as stored; the rest is written.
    LabelsKept,
    /// The owner references stay as stored; the rest is written.
    OwnersKept,
    /// Labels, annotations, finalizers and owner references stay as stored.
    Kept,
    /// As [`Kept`](Self::Kept), but the writer owns in `managedFields` the fields that it sent.
    KeptButOwned,
}

/// How a strategy checks the metadata of an update, in addition to the checks that all kinds share.
/// Each check reports its own causes, so wrong labels are reported once per check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataCheck {
    /// Checks the metadata as that of a new object (upstream: `ValidateObjectMeta`).
    New,
    /// Checks the metadata as that of an updated object (upstream: `ValidateObjectMetaUpdate`).
    Update,
}

/// The metadata checks of writes to the object and to its status, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetadataChecks {
    /// Checks of writes to the object.
    pub main: Vec<MetadataCheck>,
    /// Checks of writes to the status.
    pub status: Vec<MetadataCheck>,
}

impl MetadataChecks {
    /// Returns the checks of custom resources: one update check for each path.
    pub fn one_update() -> Self {
        Self {
            main: vec![MetadataCheck::Update],
            status: vec![MetadataCheck::Update],
        }
    }
}

impl StatusMetadata {
    /// Returns the fields of the metadata that stay as stored.
    pub fn kept(self) -> &'static [&'static str] {
        match self {
            Self::Taken => &[],
            Self::LabelsKept => &["labels"],
            Self::OwnersKept => &["ownerReferences", "deletionTimestamp"],
            Self::Kept | Self::KeptButOwned => &[
                "labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp",
            ],
        }
    }
}

/// A field label that a field selector may use, and the path of its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectableField {
    /// The label, for instance `status.phase`.
    pub label: String,
    /// Keys from the object's root to the value.
    pub path: Vec<String>,
    /// The value for objects that do not have the field.
    pub default: &'static str,
}

/// The paths that `/scale` reads and writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the desired number of replicas.
    pub spec_replicas: Vec<String>,
    /// Path of the observed number of replicas.
    pub status_replicas: Vec<String>,
    /// Path of the selector, which is a string or a label selector object; `None` for a scale without a selector.
    pub selector: Option<Vec<String>>,
}

/// One of a custom resource's `additionalPrinterColumns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrinterColumn {
    /// The heading of the column.
    pub name: String,
    /// The type of the cells: `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// The format of the cells, for instance `int32`; may be empty.
    pub format: String,
    /// The description of the column; may be empty.
    pub description: String,
    /// The priority of the column: 0 is always shown, a higher number only with `-o wide`.
    pub priority: i64,
    /// The JSONPath of the cells without braces, for instance `.spec.replicas`.
    pub json_path: String,
}
