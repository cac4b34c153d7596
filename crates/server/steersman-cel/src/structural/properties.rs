//! Words: the properties of a schema, ordered by name.

use super::{SchemaNode, Structural};

/// The schemas of the fields in `properties`, sorted by field name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Properties(Box<[(Box<str>, SchemaNode)]>);

impl Properties {
    /// Returns the schema of a field.
    pub fn get(&self, name: &str) -> Option<&Structural> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        at.ok().map(|at| &*self.0[at].1)
    }

    /// Returns whether a field has a schema.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether no field has a schema.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the field names with their schemas.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Structural)> {
        self.0.iter().map(|(name, schema)| (&**name, &**schema))
    }
}

impl FromIterator<(Box<str>, SchemaNode)> for Properties {
    fn from_iter<I: IntoIterator<Item = (Box<str>, SchemaNode)>>(all: I) -> Self {
        let mut all: Box<[_]> = all.into_iter().collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self(all)
    }
}
