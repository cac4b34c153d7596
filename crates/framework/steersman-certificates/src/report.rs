//! Machine: summarizes the Secret of a built-in authority for people.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;

use crate::stored_certificates::StoredCertificates;

/// A summary of the Secret of a built-in authority, without its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateReport {
    /// The authorities that the leader injects into configurations and definitions, in PEM; empty if there are none.
    pub authorities: String,
    /// The start and the end of the serving certificate's validity; `None` without a usable certificate.
    pub validity: Option<(Timestamp, Timestamp)>,
    /// Whether the leader should have replaced the serving certificate: less than a quarter of its lifetime is left.
    pub is_late: bool,
    /// A text for each part of the Secret that is not usable now.
    pub problems: Vec<String>,
}

impl CertificateReport {
    /// Reads a Secret as of the time `wall`.
    #[must_use]
    pub fn read(secret: &Secret, wall: Timestamp) -> Self {
        let (stored, problems) = StoredCertificates::read(Some(secret), wall);
        let leaf = stored.leaf.as_ref().map(|leaf| &leaf.certificate);
        let validity = leaf.map(|leaf| (leaf.not_before, leaf.not_after));
        let is_late = validity.is_some_and(|(from, to)| {
            // The leader replaces the certificate when a third of its lifetime is left.
            let left = to.as_second().saturating_sub(wall.as_second());
            left.saturating_mul(4) < to.as_second().saturating_sub(from.as_second())
        });
        Self {
            authorities: stored.bundle_pem(),
            validity,
            is_late,
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use steersman_object::ObjectKey;

    use super::*;
    use crate::authority::KeyedCertificate;

    #[test]
    fn a_certificate_is_late_and_then_expired() {
        let day = Duration::from_secs(24 * 3600);
        let start = Timestamp::UNIX_EPOCH + day;
        let authority = KeyedCertificate::authority(365 * day, start).unwrap();
        let leaf = authority
            .issue(&["hooks".to_owned()], 90 * day, start)
            .unwrap();
        let stored = StoredCertificates {
            bundle: vec![authority.certificate.clone()],
            leaf: Some(leaf),
            signer: Some(authority.clone()),
            ..StoredCertificates::default()
        };
        let secret = stored.write(None, &ObjectKey::namespaced("a", "b"));
        let at = |days: u32| CertificateReport::read(&secret, start + days * day);
        assert_eq!(at(1).authorities, authority.certificate.pem());
        assert!(
            !at(60).is_late && at(60).problems.is_empty(),
            "{:?}",
            at(60)
        );
        assert!(at(80).is_late && at(80).validity.is_some());
        let expired = at(91);
        assert_eq!(expired.validity, None);
        assert!(
            expired.problems[0].contains("tls.crt has expired"),
            "{expired:?}"
        );
        let empty = CertificateReport::read(&Secret::default(), start);
        assert!(empty.authorities.is_empty() && empty.validity.is_none());
    }
}
