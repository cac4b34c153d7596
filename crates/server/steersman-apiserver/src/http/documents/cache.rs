//! Machine: caches the documents that are built from the served resources until the resources change.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use steersman_schema::resource::Resource;

/// Maximum size of all cached documents, in bytes: 16 MiB, so that the documents of many CRDs do not fill the memory.
/// The documents of the built-in kinds take less.
const MOST_CACHED: usize = 16 << 20;

#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) bytes: Bytes,
    /// The `ETag` of the content, in quotes.
    pub(crate) tag: String,
}

#[derive(Debug, Default)]
pub(crate) struct DocumentCache {
    /// The resources from which the cached documents were built. They are compared by address: a changed CRD has new
    /// resources. Weak, so that the schemas of a removed CRD are freed before the next request for a document.
    of: Vec<Weak<Resource>>,
    made: HashMap<String, Document>,
    bytes: usize,
}

impl DocumentCache {
    /// Returns the document with this name, from the cache or built by `make`. If `make` returns `None`, nothing is
    /// cached, so that unknown names use no memory. A full cache is emptied; a document above 16 MiB is never cached.
    pub(crate) fn get(
        &mut self,
        resources: &[Arc<Resource>],
        name: &str,
        make: impl FnOnce() -> Option<Document>,
    ) -> Option<Document> {
        let mut pairs = self.of.iter().zip(resources);
        let same = self.of.len() == resources.len()
            && pairs.all(|(old, new)| old.as_ptr() == Arc::as_ptr(new));
        if !same {
            self.made.clear();
            self.bytes = 0;
            self.of = resources.iter().map(Arc::downgrade).collect();
        }
        if let Some(document) = self.made.get(name) {
            return Some(document.clone());
        }
        let document = make()?;
        let size = document.bytes.len();
        if size > MOST_CACHED {
            return Some(document);
        }
        if self.bytes + size > MOST_CACHED {
            self.made.clear();
            self.bytes = 0;
        }
        self.bytes += size;
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

    #[test]
    fn the_cache_is_bounded_and_keeps_no_removed_resource() {
        let size = MOST_CACHED / 2 + 1;
        let document = |size: usize| {
            move || {
                Some(Document {
                    bytes: Bytes::from(vec![0; size]),
                    tag: String::new(),
                })
            }
        };
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let registry = Registry::new(RegistryOptions::default(), now);
        let one = [Arc::new((*registry.resources()[0]).clone())];
        let mut cache = DocumentCache::default();
        for name in ["a", "b", "b"] {
            cache.get(&one, name, document(size));
        }
        assert_eq!((cache.made.len(), cache.bytes), (1, size));
        cache.get(&one, "c", document(2 * size));
        assert_eq!((cache.made.len(), cache.bytes), (1, size));
        assert_eq!(Arc::strong_count(&one[0]), 1);
    }
}
