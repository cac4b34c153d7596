//! Words: what a list found, and how new that is.

use std::ops::Deref;
use std::sync::Arc;

use steersman_object::ResourceVersion;

/// For each informer that was read its namespace (`None`: all of them, or all that have none of their
/// own) and the version up to which it had applied everything the server said: all that was read of it
/// is of that one version.
pub type Versions = Vec<(Option<Arc<str>>, ResourceVersion)>;

/// What a list found, with the version that each informer was read at.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed<K> {
    /// The objects; those of one informer in the order of their keys.
    pub items: Vec<Arc<K>>,
    /// What each informer was read at.
    pub versions: Versions,
}

impl<K> Listed<K> {
    pub(crate) fn new(items: Vec<Arc<K>>, versions: Versions) -> Self {
        Self { items, versions }
    }
}

impl<K> Deref for Listed<K> {
    type Target = [Arc<K>];

    fn deref(&self) -> &[Arc<K>] {
        &self.items
    }
}
