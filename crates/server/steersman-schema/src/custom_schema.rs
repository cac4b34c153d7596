//! Words: the schema of one version of a custom resource, as JSON that is compiled at its first use.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;
use serde_json::Value;
use steersman_cel::Rules;
use steersman_cel::structural::{SchemaNode, Structural};

/// The `openAPIV3Schema` of one version of a custom resource.
///
/// The JSON is a part of the stored definition and shares its bytes. Most clusters have many
/// definitions without objects, so a schema is compiled when the first object is read or written.
/// Compiled schemas share their equal parts (SRV-CRD-1).
pub struct CustomSchema {
    json: Bytes,
    structural: OnceLock<SchemaNode>,
    rules: OnceLock<Option<Rules>>,
}

impl CustomSchema {
    /// Creates a schema from its JSON, which may share the bytes of its definition.
    #[must_use]
    pub fn new(json: Bytes) -> Self {
        Self {
            json,
            structural: OnceLock::new(),
            rules: OnceLock::new(),
        }
    }

    /// Returns the schema as JSON.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// Decodes the JSON; null for a version without a schema. The decoded form is not kept.
    pub fn decode(&self) -> Value {
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// Returns the compiled schema, and compiles it at the first call.
    pub fn structural(&self) -> &Structural {
        self.structural
            .get_or_init(|| SchemaNode::kept(&self.decode()))
    }

    /// Returns the compiled validation rules; `None` for a schema without rules. The first call compiles them.
    pub fn rules(&self) -> Option<&Rules> {
        let rules = self.rules.get_or_init(|| Rules::compile(self.structural()));
        rules.as_ref()
    }

    /// Returns whether the schema is compiled.
    pub fn is_compiled(&self) -> bool {
        self.structural.get().is_some()
    }
}

impl Default for CustomSchema {
    /// Returns the schema of a version that has none.
    fn default() -> Self {
        Self::new(Bytes::from_static(b"null"))
    }
}

impl fmt::Debug for CustomSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomSchema")
            .field("bytes", &self.json.len())
            .field("is_compiled", &self.is_compiled())
            .finish_non_exhaustive()
    }
}
