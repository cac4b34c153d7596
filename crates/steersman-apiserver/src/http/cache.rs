//! Machine: keeps the documents that are made from the served resources until those change.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use steersman_schema::resource::Resource;

/// A document as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The text.
    pub(crate) bytes: Bytes,
    /// The tag that changes with it, in quotes.
    pub(crate) tag: String,
}

/// The documents that were made, by name.
#[derive(Debug, Default)]
pub(crate) struct DocumentCache {
    /// What they were made from. A definition that changes makes resources of its own.
    of: Vec<Arc<Resource>>,
    made: HashMap<String, Document>,
}

impl DocumentCache {
    /// The document of this name, made if it was not made of just these resources before. What
    /// cannot be made is not remembered, so that names that are asked for at random cost nothing.
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
    fn a_document_is_made_once_until_the_resources_change() {
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
