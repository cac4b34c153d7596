//! Words: the properties of a schema, ordered by name.

use super::{SchemaNode, Structural};

/// The schemas of named members, in the order of the names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Properties(Box<[(Box<str>, SchemaNode)]>);

impl Properties {
    /// Returns the schema of a member.
    pub fn get(&self, name: &str) -> Option<&Structural> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(name));
        at.ok().map(|at| &*self.0[at].1)
    }

    /// Returns whether a member has a schema.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether no member has a schema.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the names with the schemas.
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
