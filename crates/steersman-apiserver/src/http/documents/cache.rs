//! Machine: caches the documents that are built from the served resources until the resources
//! change.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use steersman_schema::resource::Resource;

/// A serialised document.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The content.
    pub(crate) bytes: Bytes,
    /// The `ETag` of the content, in quotes.
    pub(crate) tag: String,
}

/// The cached documents, by name.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache {
    /// The resources that the documents were built from. A changed CRD has new resources.
    of: Vec<Arc<Resource>>,
    made: HashMap<String, Document>,
}

impl DocumentCache {
    /// Returns the document of this name, built from these resources. Failures are not cached, so
    /// requests for random names use no memory.
    pub(crate) fn get(
        &mut self,
        resources: &[Arc<Resource>],
        name: &str,
        make: impl FnOnce() -> Option<Document>,
    ) -> Option<Document> {
        let mut pairs = self.of.iter().zip(resources);
        let same =
            self.of.len() == resources.len() && pairs.all(|(old, new)| Arc::ptr_eq(old, new));
        if !same {
            self.made.clear();
            self.of = resources.to_vec();
        }
        if let Some(document) = self.made.get(name) {
            return Some(document.clone());
        }
        let document = make()?;
        self.made.insert(name.to_owned(), document.clone());
        Some(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steersman_registry::{Registry, RegistryOptions};

    #[test]
    fn a_document_is_built_once_until_the_resources_change() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let registry = Registry::new(RegistryOptions::default(), now);
        let resources = registry.resources();
        let mut cache = DocumentCache::default();
        let mut made = 0;
        let mut get = |resources: &[Arc<Resource>], name: &str, exists: bool| {
            let found = cache.get(resources, name, || {
                made += 1;
                exists.then(|| Document {
                    bytes: Bytes::from(made.to_string()),
                    tag: String::new(),
                })
            });
            found.map(|document| document.bytes)
        };
        assert_eq!(get(resources, "a", true).unwrap(), "1");
        assert_eq!(get(resources, "a", true).unwrap(), "1");
        assert_eq!(get(resources, "none", false), None);
        assert_eq!(get(resources, "b", true).unwrap(), "3");
        assert_eq!(get(&resources[1..], "a", true).unwrap(), "4");
        let mut other = resources.to_vec();
        other[0] = Arc::new((*other[0]).clone());
        assert_eq!(get(&other, "a", true).unwrap(), "5");
    }
}
