//! Machine: the copies with known content, so that an unchanged copy is not read again.

use std::collections::HashMap;

use steersman::ObjectKey;
use steersman::object::{Object, ResourceVersion};

/// The copies that had the data of their source when the operator looked last.
///
/// The metadata of a Secret does not tell its data, and its version changes with the data. So a copy at the version
/// that the operator saw needs no read.
///
/// A copy that another program deletes is not reported here, so the copies that the cache no longer holds are forgotten
/// whenever their number may have doubled.
#[derive(Debug, Default)]
pub(crate) struct CheckedCopies {
    versions: HashMap<ObjectKey, CheckedVersions>,
    /// The number of copies at which the next sweep is due.
    sweep_at: usize,
}

/// The smallest number of copies at which a sweep is due.
const SWEEP_AT_LEAST: usize = 1024;

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
    pub(crate) fn insert(&mut self, copy: &impl Object, source: &impl Object) {
        let versions = CheckedVersions::of(copy, source);
        self.versions.insert(copy.key(), versions);
    }

    /// Forgets a copy that was deleted.
    pub(crate) fn remove(&mut self, copy: &ObjectKey) {
        self.versions.remove(copy);
    }

    /// Forgets the copies that do not exist, if a sweep is due.
    pub(crate) fn sweep(&mut self, exists: impl Fn(&ObjectKey) -> bool) {
        if self.versions.len() < self.sweep_at.max(SWEEP_AT_LEAST) {
            return;
        }
        self.versions.retain(|copy, _| exists(copy));
        self.sweep_at = 2 * self.versions.len();
    }

    // ANCHOR: has
    /// Returns whether `copy` is known to have the data of `source`, both at their present versions.
    pub(crate) fn has(&self, copy: &impl Object, source: &impl Object) -> bool {
        self.versions.get(&copy.key()) == Some(&CheckedVersions::of(copy, source))
    }
    // ANCHOR_END: has
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

    #[test]
    fn copies_that_are_gone_are_forgotten_when_their_number_has_doubled() {
        let mut checked = CheckedCopies::default();
        let source = secret("vault", "s", "3");
        let mut most = 0;
        for number in 0..10_000 {
            checked.insert(&secret(&format!("shop-{number}"), "c", "7"), &source);
            // The last hundred namespaces exist.
            let exists = |copy: &ObjectKey| {
                let namespace = copy.namespace().unwrap_or_default();
                let of = namespace.trim_start_matches("shop-").parse::<i32>();
                of.is_ok_and(|of| of > number - 100)
            };
            checked.sweep(exists);
            most = most.max(checked.versions.len());
            let kept = secret(&format!("shop-{}", (number - 50).max(0)), "c", "7");
            assert!(checked.has(&kept, &source));
        }
        assert!(most <= SWEEP_AT_LEAST, "{most}");
    }
}
