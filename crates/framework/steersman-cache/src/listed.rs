//! Words: the result of a list, with its resource versions.

use std::ops::Deref;
use std::sync::Arc;

use steersman_object::ResourceVersion;

/// For each informer that was read: its namespace (`None`: all namespaces without their own informer), and the resource
/// version up to which it had applied all changes. All objects from one informer are of its version.
pub type Versions = Vec<(Option<Arc<str>>, ResourceVersion)>;

/// The objects of a list, with the resource version of each informer that was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed<K> {
    /// The objects. Objects from one informer are in the order of their keys.
    pub items: Vec<Arc<K>>,
    /// The namespace and the resource version of each informer that was read.
    pub versions: Versions,
}

impl<K> Deref for Listed<K> {
    type Target = [Arc<K>];

    fn deref(&self) -> &[Arc<K>] {
        &self.items
    }
}
