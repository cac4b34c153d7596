//! Machine: the copies with known content, so that an unchanged copy is not read again.

use std::collections::HashMap;

use steersman::ObjectKey;
use steersman::object::{Object, ResourceVersion};

/// The copies that had the data of their source when the operator looked last.
///
/// The metadata of a Secret does not tell its data, and its version changes with the data. So a copy at the version
/// that the operator saw needs no read.
#[derive(Debug, Default)]
pub struct CheckedCopies {
    versions: HashMap<ObjectKey, CheckedVersions>,
}

/// The identity and the versions of a copy and its source.
#[derive(Debug, PartialEq, Eq)]
struct CheckedVersions {
    uid: String,
    copy: ResourceVersion,
    source: ResourceVersion,
}

impl CheckedVersions {
    fn of(copy: &impl Object, source: &impl Object) -> Self {
        Self {
            uid: copy.uid_str().to_owned(),
            copy: copy.stored_version(),
            source: source.stored_version(),
        }
    }
}

impl CheckedCopies {
    /// Remembers that `copy` has the data of `source`.
    pub fn insert(&mut self, copy: &impl Object, source: &impl Object) {
        let versions = CheckedVersions::of(copy, source);
        self.versions.insert(copy.key(), versions);
    }

    /// Forgets a copy that was deleted.
    pub fn remove(&mut self, copy: &ObjectKey) {
        self.versions.remove(copy);
    }

    /// Returns whether `copy` is known to have the data of `source`, both at their present versions.
    #[must_use]
    pub fn has(&self, copy: &impl Object, source: &impl Object) -> bool {
        self.versions.get(&copy.key()) == Some(&CheckedVersions::of(copy, source))
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Secret;
    use steersman::k8s_openapi;

    use super::*;

    fn secret(namespace: &str, uid: &str, version: &str) -> Secret {
        let mut secret = Secret {
            metadata: ObjectKey::namespaced(namespace, "token").to_meta(),
            ..Secret::default()
        };
        secret.metadata.uid = Some(uid.to_owned());
        secret.metadata.resource_version = Some(version.to_owned());
        secret
    }

    #[test]
    fn a_copy_is_checked_until_one_of_the_two_changes() {
        let mut checked = CheckedCopies::default();
        let (copy, source) = (secret("shop", "c", "7"), secret("vault", "s", "3"));
        assert!(!checked.has(&copy, &source));
        checked.insert(&copy, &source);
        assert!(checked.has(&copy, &source));
        assert!(!checked.has(&secret("shop", "c", "8"), &source));
        assert!(!checked.has(&secret("shop", "d", "7"), &source));
        assert!(!checked.has(&copy, &secret("vault", "s", "4")));
        checked.remove(&copy.key());
        assert!(!checked.has(&copy, &source));
    }
}
