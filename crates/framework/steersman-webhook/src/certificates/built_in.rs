//! Words: the options of certificates with a built-in authority.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use steersman_certificates::{KeyedCertificate, RotationSettings};
use steersman_object::ObjectKey;
use steersman_serve::SharedCertificate;
use thiserror::Error as ThisError;

use crate::certificates::authority_metrics::AuthorityMetrics;
use crate::certificates::injection::{InjectionKind, InjectionTarget};
use crate::certificates::trusted_authorities::{AuthoritiesReceiver, TrustedAuthorities};

/// The wall clock that gives the times in certificates.
type WallClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Certificates of webhooks with a built-in authority, for clusters without cert-manager.
///
/// The authority, the serving certificate and their keys are in one Secret. Two loops keep them:
///
/// - [`lead`](Self::lead) runs on the leader. It creates the Secret, replaces certificates before they expire, and
///   injects the authorities into webhook configurations and definitions.
/// - [`follow`](Self::follow) runs on every replica. It reads the Secret and hands the serving certificate to the
///   servers through [`certificate`](Self::certificate).
///
/// A rotation of the authority overlaps: the next authority is trusted before it signs, and the former one is trusted
/// until no replica presents a certificate of it (CERT-1). The progress is in the Secret, so that another leader
/// goes on with it (CERT-2). A Secret that is deleted or damaged is repaired with as little change as possible
/// (CERT-4).
///
/// Cheap to clone. Clones share the certificate of the servers: each replica makes its own.
///
/// ```
/// use steersman_object::ObjectKey;
/// use steersman_serve::{ServerOptions, TlsOptions};
/// use steersman_webhook::BuiltInCertificates;
///
/// # fn main() -> Result<(), steersman_webhook::InvalidCertificates> {
/// let secret = ObjectKey::namespaced("websites-system", "website-operator-certificates");
/// let service = ObjectKey::namespaced("websites-system", "website-operator");
/// let certificates = BuiltInCertificates::new(secret, service)
///     .inject_into_validating("website-operator")
///     .inject_into_mutating("website-operator")
///     .inject_into_definition("websites.web.example.com");
/// certificates.check()?;
/// let options = ServerOptions::new().tls(TlsOptions::shared(certificates.certificate()));
/// # let _ = options;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug(
    "BuiltInCertificates {{ secret: {secret:?}, service: {service:?}, targets: {targets:?}, .. }}"
)]
#[must_use]
pub struct BuiltInCertificates {
    pub(crate) secret: ObjectKey,
    pub(crate) service: ObjectKey,
    extra_names: Vec<String>,
    authority_lifetime: Duration,
    certificate_lifetime: Duration,
    overlap: Duration,
    pub(crate) read_interval: Duration,
    pub(crate) targets: Vec<InjectionTarget>,
    pub(crate) metrics: Option<AuthorityMetrics>,
    pub(crate) clock: WallClock,
    pub(crate) shared: SharedCertificate,
    /// The authorities that the leader injects, as PEM.
    pub(crate) authorities: TrustedAuthorities,
}

/// The error of contradicting or invalid options of built-in certificates.
#[derive(Debug, ThisError)]
#[error("the webhook certificates in the Secret {secret} cannot be kept: {problem}")]
pub struct InvalidCertificates {
    secret: String,
    problem: String,
}

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The greatest lifetime of a certificate. Every TLS library can represent the end of this lifetime.
const LONGEST_LIFETIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// The greatest value of the read interval.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

impl BuiltInCertificates {
    /// Makes the options with the key of the Secret, and the key of the Service in front of the webhook servers.
    ///
    /// The serving certificate is valid for `name.namespace.svc`, `name.namespace` and
    /// `name.namespace.svc.cluster.local`.
    pub fn new(secret: ObjectKey, service: ObjectKey) -> Self {
        Self {
            secret,
            service,
            extra_names: Vec::new(),
            authority_lifetime: 365 * DAY,
            certificate_lifetime: 90 * DAY,
            overlap: Duration::from_secs(300),
            read_interval: Duration::from_secs(10),
            targets: Vec::new(),
            metrics: None,
            clock: Arc::new(Timestamp::now),
            shared: SharedCertificate::new(),
            authorities: TrustedAuthorities::default(),
        }
    }

    /// Adds a DNS name or an address to the serving certificate.
    pub fn extra_name(mut self, name: impl Into<String>) -> Self {
        self.extra_names.push(name.into());
        self
    }

    /// Sets how long an authority is valid: 365 days by default. It is replaced when a third of that time is left.
    pub fn authority_lifetime(mut self, lifetime: Duration) -> Self {
        self.authority_lifetime = lifetime;
        self
    }

    /// Sets how long a serving certificate is valid: 90 days by default. It is replaced when a third of that time is
    /// left.
    pub fn certificate_lifetime(mut self, lifetime: Duration) -> Self {
        self.certificate_lifetime = lifetime;
        self
    }

    /// Sets the time between two steps of a rotation, in which every API server must notice a changed configuration:
    /// five minutes by default.
    pub fn overlap(mut self, overlap: Duration) -> Self {
        self.overlap = overlap;
        self
    }

    /// Sets how often each replica reads the Secret and the leader reads the configurations: 10 s by default, and 60 s
    /// at most. A replica without a certificate reads the Secret once a second.
    pub fn read_interval(mut self, interval: Duration) -> Self {
        self.read_interval = interval;
        self
    }

    /// Injects the authorities into each webhook of a `ValidatingWebhookConfiguration`, also if the configuration is
    /// created later.
    pub fn inject_into_validating(self, name: impl Into<String>) -> Self {
        self.inject(InjectionKind::Validating, name.into())
    }

    /// Injects the authorities into each webhook of a `MutatingWebhookConfiguration`, also if it is created later.
    pub fn inject_into_mutating(self, name: impl Into<String>) -> Self {
        self.inject(InjectionKind::Mutating, name.into())
    }

    /// Injects the authorities into the conversion webhook of a `CustomResourceDefinition`, such as
    /// `websites.web.example.com`.
    pub fn inject_into_definition(self, name: impl Into<String>) -> Self {
        self.inject(InjectionKind::Definition, name.into())
    }

    fn inject(mut self, kind: InjectionKind, name: String) -> Self {
        let target = InjectionTarget { kind, name };
        if !self.targets.contains(&target) {
            self.targets.push(target);
        }
        self
    }

    /// Sets the metrics; there are none by default.
    pub fn metrics(mut self, metrics: AuthorityMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns whether [`metrics`](Self::metrics) were set.
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    /// Sets the wall clock that gives the times in certificates; by default, the clock of the system.
    pub fn clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Returns the certificate of the servers of this replica, for
    /// [`TlsOptions::shared`](steersman_serve::TlsOptions::shared). [`follow`](Self::follow) sets it.
    pub fn certificate(&self) -> SharedCertificate {
        self.shared.clone()
    }

    /// Returns the receiver of the authorities that API servers must trust, in PEM: `None` until the
    /// [leader](Self::lead) in this process has read or created the authorities.
    pub fn authorities(&self) -> AuthoritiesReceiver {
        self.authorities.pem.subscribe()
    }

    /// Returns the key of the Service in front of the webhook servers.
    pub fn service(&self) -> &ObjectKey {
        &self.service
    }

    /// Checks the options without I/O.
    ///
    /// # Errors
    ///
    /// [`InvalidCertificates`] if the Secret or the Service has no namespace, a name cannot be in a certificate, or the
    /// lifetimes, the overlap and the interval do not fit together.
    pub fn check(&self) -> Result<(), InvalidCertificates> {
        let Some(problem) = self.problem() else {
            return Ok(());
        };
        let secret = self.secret.to_string();
        Err(InvalidCertificates { secret, problem })
    }

    fn problem(&self) -> Option<String> {
        let settings = self.settings();
        let rotation = settings.overlap.saturating_add(settings.retirement());
        if self.secret.namespace().is_none() || self.service.namespace().is_none() {
            return Some("the Secret and the Service need a namespace".to_owned());
        }
        if self.read_interval.is_zero() || self.read_interval > LONGEST_INTERVAL {
            return Some("the read interval must be positive and at most 60 s".to_owned());
        }
        if self.authority_lifetime > LONGEST_LIFETIME {
            return Some("the authority may be valid for 100 years at most".to_owned());
        }
        if self.certificate_lifetime > self.authority_lifetime {
            return Some("the serving certificate would outlive its authority".to_owned());
        }
        if self.certificate_lifetime < self.read_interval.saturating_mul(30) {
            let problem = "the serving certificate must be valid for 30 read intervals at least";
            return Some(problem.to_owned());
        }
        if rotation > self.authority_lifetime / 6 {
            let problem = "two overlaps and two read intervals must fit into a sixth of the \
                           authority's lifetime";
            return Some(problem.to_owned());
        }
        // Making an authority shows whether a certificate can have the names.
        let authority = KeyedCertificate::authority(DAY, Timestamp::UNIX_EPOCH);
        let made = authority.and_then(|one| one.issue(&settings.names, DAY, Timestamp::UNIX_EPOCH));
        made.err()
    }

    /// Returns the options that the rotation needs.
    pub(crate) fn settings(&self) -> RotationSettings {
        let namespace = self.service.namespace().unwrap_or_default();
        let name = self.service.name();
        let names = ["svc", "", "svc.cluster.local"].map(|suffix| match suffix {
            "" => format!("{name}.{namespace}"),
            suffix => format!("{name}.{namespace}.{suffix}"),
        });
        RotationSettings {
            names: names.into_iter().chain(self.extra_names.clone()).collect(),
            authority_lifetime: self.authority_lifetime,
            leaf_lifetime: self.certificate_lifetime,
            overlap: self.overlap,
            read_interval: self.read_interval,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> BuiltInCertificates {
        let key = |name| ObjectKey::namespaced("shop", name);
        BuiltInCertificates::new(key("certificates"), key("hooks"))
    }

    #[test]
    fn the_certificate_names_the_service_and_the_extra_names() {
        let names = options().extra_name("hooks.example.com").settings().names;
        let wanted = [
            "hooks.shop.svc", "hooks.shop", "hooks.shop.svc.cluster.local", "hooks.example.com",
        ];
        assert_eq!(names, wanted);
    }

    #[test]
    fn options_that_cannot_be_used_are_named() {
        assert!(options().check().is_ok());
        let hour = Duration::from_secs(3600);
        let secret = ObjectKey::cluster_scoped("certificates");
        let service = ObjectKey::namespaced("shop", "hooks");
        for (wrong, part) in [
            (BuiltInCertificates::new(secret, service), "namespace"),
            (options().read_interval(Duration::ZERO), "read interval"),
            (options().read_interval(2 * hour), "60 s"),
            (options().authority_lifetime(Duration::MAX), "100 years"),
            (options().authority_lifetime(80 * DAY), "outlive"),
            (options().certificate_lifetime(Duration::ZERO), "30 read"),
            (options().overlap(31 * DAY), "overlaps"),
            (options().overlap(Duration::MAX), "overlaps"),
            (options().extra_name("ü"), "could not be made"),
        ] {
            let error = wrong.check().unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
    }
}
