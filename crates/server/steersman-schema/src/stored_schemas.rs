//! Words: `StoredSchemas`, the schemas through which stored custom resources are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use steersman_cel::structural::Structural;

use super::custom_schema::CustomSchema;

/// The schemas of all versions of a definition, and which stored objects a read passes
/// through the schema of their version (SRV-CRD-2).
#[derive(Debug, Clone, Default)]
pub struct StoredSchemas {
    versions: Arc<BTreeMap<String, Arc<CustomSchema>>>,
    reads: SchemaReads,
}

/// Which stored objects may lack what the schema of their version requires of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SchemaReads {
    /// No object: every write stores an object as its schema requires.
    #[default]
    Never,
    /// Objects without a status, because a create drops the status with its default.
    WithoutStatus,
    /// All objects, because the schema changed after they were written, or because a write in
    /// another version does not apply the defaults of the storage version.
    Always,
}

impl StoredSchemas {
    /// Collects the schemas of a definition by version.
    #[must_use]
    pub fn new(versions: BTreeMap<String, Arc<CustomSchema>>, reads: SchemaReads) -> Self {
        Self {
            versions: Arc::new(versions),
            reads,
        }
    }

    /// Returns the schema of an `apiVersion` or of a version.
    pub fn schema_of(&self, version: &str) -> Option<&Arc<CustomSchema>> {
        let short = version.rsplit_once('/').map_or(version, |(_, short)| short);
        self.versions.get(short)
    }

    /// Returns the compiled schema of an `apiVersion` or of a version.
    pub fn of_version(&self, version: &str) -> Option<&Structural> {
        Some(self.schema_of(version)?.structural())
    }

    /// Passes every stored object through its schema from now on.
    pub fn read_always(&mut self) {
        self.reads = SchemaReads::Always;
    }

    /// Returns the schema that a stored object has to pass through, or `None` for an object that is
    /// stored as its schema requires. `has_status` says whether the object has a status.
    pub fn for_read(&self, api_version: &str, has_status: bool) -> Option<&Structural> {
        let passes = match self.reads {
            SchemaReads::Never => false,
            SchemaReads::WithoutStatus => !has_status,
            SchemaReads::Always => true,
        };
        passes.then(|| self.of_version(api_version)).flatten()
    }
}

/// Reads a stored object through the schema of its version, as upstream decodes it: removes what the
/// schema does not declare, and applies the defaults.
pub fn read_stored(schema: &Structural, object: &mut Value) {
    schema.coerce(object);
    schema.apply_defaults(object);
}
