//! Words: the keyword `properties` of a schema: its fields, sorted by name.

use super::{SchemaNode, Structural};

/// The schemas of the fields in `properties`, sorted by field name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Properties(Box<[(Box<str>, SchemaNode)]>);

impl Properties {
    /// Returns the schema of the field `name`; `None` if `properties` does not name it.
    pub fn get(&self, name: &str) -> Option<&Structural> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        at.ok().map(|at| &*self.0[at].1)
    }

    /// Returns whether `properties` names this field.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether `properties` is absent or empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the fields with their schemas, sorted by name.
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
