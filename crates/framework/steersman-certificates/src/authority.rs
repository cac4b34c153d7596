//! Machine: makes, signs and reads the certificates of the built-in authority.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use pem::{EncodeConfig, LineEnding};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::certificate_times::{CertificateTimes, timestamp};

/// A parsed certificate, with the fields that the rotation compares.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub struct ParsedCertificate {
    #[debug(skip)]
    der: Vec<u8>,
    /// The public key, DER-encoded as `SubjectPublicKeyInfo`.
    #[debug(skip)]
    public_key: Vec<u8>,
    names: Vec<String>,
    /// The start of the validity.
    pub not_before: Timestamp,
    /// The end of the validity.
    pub not_after: Timestamp,
    is_authority: bool,
}

/// A certificate and its private key. `Debug` hides the key.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("KeyedCertificate {{ certificate: {certificate:?}, .. }}")]
pub struct KeyedCertificate {
    /// The certificate of the key.
    pub certificate: ParsedCertificate,
    key: String,
}

/// The greatest expected difference between two clocks. Certificates are valid this long before they are made (CERT-3).
pub(crate) const CLOCK_SKEW: Duration = Duration::from_secs(3600);

/// The longest common name of a certificate (RFC 5280, `ub-common-name`).
const LONGEST_COMMON_NAME: usize = 64;

impl ParsedCertificate {
    fn of_der(der: &[u8]) -> Result<Self, String> {
        let parsed = X509Certificate::from_der(der);
        let (_, parsed) = parsed.map_err(|error| format!("a certificate is malformed: {error}"))?;
        let may_sign = parsed.key_usage().ok().flatten();
        let may_sign = may_sign.is_none_or(|usage| usage.value.key_cert_sign());
        let times = CertificateTimes::of(&parsed);
        Ok(Self {
            der: der.to_vec(),
            public_key: parsed.public_key().raw.to_vec(),
            names: names(&parsed),
            not_before: times.not_before,
            not_after: times.not_after,
            is_authority: parsed.is_ca() && may_sign,
        })
    }

    /// Returns the distinct certificates that can be read in a PEM text, and the first problem of the text.
    pub fn all(text: &[u8]) -> (Vec<Self>, Option<String>) {
        let (mut found, mut problem) = (Vec::new(), None);
        for block in Pem::iter_from_buffer(text) {
            let read = match block {
                Ok(block) if block.label == "CERTIFICATE" => Self::of_der(&block.contents),
                Ok(_) => continue,
                Err(error) => Err(format!("the PEM text is malformed: {error}")),
            };
            match read {
                Ok(certificate) if found.contains(&certificate) => {}
                Ok(certificate) => found.push(certificate),
                Err(why) => {
                    problem.get_or_insert(why);
                }
            }
        }
        if found.is_empty() {
            problem.get_or_insert_with(|| "there is no certificate in the text".to_owned());
        }
        (found, problem)
    }

    /// Returns the certificate in PEM, with lines that end in LF.
    pub fn pem(&self) -> String {
        let config = EncodeConfig::new().set_line_ending(LineEnding::LF);
        pem::encode_config(&pem::Pem::new("CERTIFICATE", &*self.der), config)
    }

    /// Returns whether the certificate may sign others: it is a CA, and its key usage, if any, allows signing.
    pub fn is_authority(&self) -> bool {
        self.is_authority
    }

    /// Returns whether the certificate is valid at this time.
    pub fn is_valid_at(&self, wall: Timestamp) -> bool {
        self.not_before <= wall && wall < self.not_after
    }

    /// Returns an error if the certificate is not valid at this time.
    ///
    /// # Errors
    ///
    /// The end of a sentence about the certificate, such as `has expired at 2026-03-01T12:00:00Z`.
    pub fn check_time(&self, wall: Timestamp) -> Result<(), String> {
        if wall < self.not_before {
            return Err(format!("is not valid before {}", self.not_before));
        }
        if wall >= self.not_after {
            return Err(format!("has expired at {}", self.not_after));
        }
        Ok(())
    }

    /// Returns whether the private key of `authority` has signed this certificate.
    pub fn is_signed_by(&self, authority: &Self) -> bool {
        let own = X509Certificate::from_der(&self.der);
        let signer = X509Certificate::from_der(&authority.der);
        let (Ok((_, own)), Ok((_, signer))) = (own, signer) else {
            return false;
        };
        authority.is_authority
            && own.issuer().as_raw() == signer.subject().as_raw()
            && own.verify_signature(Some(signer.public_key())).is_ok()
    }

    /// Returns whether the certificate has all these DNS names and IP addresses.
    pub fn has_names(&self, wanted: &[String]) -> bool {
        let mut wanted = wanted.iter().map(|name| normal(name));
        wanted.all(|name| self.names.contains(&name))
    }
}

impl KeyedCertificate {
    /// Joins a private key in PEM and the certificate of that key; `None` if no given certificate has that key.
    ///
    /// # Errors
    ///
    /// The key cannot be read.
    pub fn join(certificates: &[ParsedCertificate], key: &[u8]) -> Result<Option<Self>, String> {
        let key = String::from_utf8_lossy(key).into_owned();
        let pair = KeyPair::from_pem(&key);
        let pair = pair.map_err(|error| format!("the key cannot be read: {error}"))?;
        let public_key = pair.subject_public_key_info();
        let mut certificates = certificates.iter();
        let certificate = certificates.find(|certificate| certificate.public_key == public_key);
        Ok(certificate.map(|certificate| Self {
            certificate: certificate.clone(),
            key,
        }))
    }

    /// Makes an authority with a self-signed certificate (ECDSA P-256).
    ///
    /// # Errors
    ///
    /// The certificate cannot be encoded, for example with a time after the year 9999.
    pub fn authority(lifetime: Duration, wall: Timestamp) -> Result<Self, String> {
        let make = || {
            let mut params = CertificateParams::new(Vec::new())?;
            // Each authority has a name of its own, because TLS clients find an authority by its name.
            let name = format!("steersman-webhook-ca-{}", wall.as_second());
            params.distinguished_name = named(name);
            params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
            params.key_usages = vec![
                KeyUsagePurpose::KeyCertSign,
                KeyUsagePurpose::CrlSign,
                KeyUsagePurpose::DigitalSignature,
            ];
            set_validity(&mut params, wall, later(wall, lifetime));
            let key = KeyPair::generate()?;
            let certificate = params.self_signed(&key)?;
            Ok((certificate.der().to_vec(), key.serialize_pem()))
        };
        Self::made(make())
    }

    /// Makes a serving certificate that this authority signs. It expires no later than the authority.
    ///
    /// # Errors
    ///
    /// A name is not ASCII, or the certificate cannot be encoded.
    pub fn issue(
        &self,
        names: &[String],
        lifetime: Duration,
        wall: Timestamp,
    ) -> Result<Self, String> {
        let make = || {
            let signer = KeyPair::from_pem(&self.key)?;
            let signer = Issuer::from_ca_cert_pem(&self.certificate.pem(), signer)?;
            let mut params = CertificateParams::new(names.to_vec())?;
            let short = names.iter().find(|name| name.len() <= LONGEST_COMMON_NAME);
            params.distinguished_name = named(short.map_or("webhook", String::as_str));
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            params.use_authority_key_identifier_extension = true;
            let until = later(wall, lifetime).min(self.certificate.not_after);
            set_validity(&mut params, wall, until);
            let key = KeyPair::generate()?;
            let certificate = params.signed_by(&key, &signer)?;
            Ok((certificate.der().to_vec(), key.serialize_pem()))
        };
        Self::made(make())
    }

    fn made(made: Result<(Vec<u8>, String), rcgen::Error>) -> Result<Self, String> {
        let (der, key) =
            made.map_err(|error| format!("a certificate could not be made: {error}"))?;
        let certificate = ParsedCertificate::of_der(&der)?;
        Ok(Self { certificate, key })
    }

    /// Returns the private key in PEM.
    pub fn key(&self) -> &str {
        &self.key
    }
}

pub(crate) fn later(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    timestamp(time.as_second().saturating_add(seconds))
}

fn earlier(time: Timestamp, duration: Duration) -> Timestamp {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    timestamp(time.as_second().saturating_sub(seconds))
}

/// CERT-3: the validity begins some time in the past, because the clocks of other machines may be behind.
fn set_validity(params: &mut CertificateParams, wall: Timestamp, until: Timestamp) {
    let since_epoch = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        Duration::from_secs(seconds)
    };
    params.not_before = date_time_ymd(1970, 1, 1) + since_epoch(earlier(wall, CLOCK_SKEW));
    params.not_after = date_time_ymd(1970, 1, 1) + since_epoch(until);
}

fn named(name: impl Into<String>) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name.into());
    names
}

fn names(certificate: &X509Certificate<'_>) -> Vec<String> {
    let extension = certificate.subject_alternative_name().ok().flatten();
    let all = extension.map(|extension| &extension.value.general_names);
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some(normal(name)),
        GeneralName::IPAddress(bytes) => address(bytes).map(|address| address.to_string()),
        _ => None,
    };
    all.into_iter().flatten().filter_map(text).collect()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

/// Normalizes a DNS name or IP address for comparisons.
fn normal(name: &str) -> String {
    match name.parse::<IpAddr>() {
        Ok(address) => address.to_string(),
        Err(_) => name.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

    fn wall() -> Timestamp {
        "2026-03-01T12:00:00Z".parse().unwrap()
    }

    fn wanted() -> Vec<String> {
        ["hooks.shop.svc", "::1", "Hooks.example.com"]
            .map(str::to_owned)
            .to_vec()
    }

    #[test]
    fn an_issued_certificate_has_its_names_and_is_trusted_by_its_authority_alone() {
        let (one, other) = (
            KeyedCertificate::authority(YEAR, wall()).unwrap(),
            KeyedCertificate::authority(YEAR, wall()).unwrap(),
        );
        let leaf = one.issue(&wanted(), WEEK, wall()).unwrap();
        assert!(leaf.certificate.has_names(&wanted()));
        assert!(!leaf.certificate.has_names(&["hooks.shop".to_owned()]));
        assert!(leaf.certificate.is_signed_by(&one.certificate));
        assert!(!leaf.certificate.is_signed_by(&other.certificate));
        assert!(!leaf.certificate.is_signed_by(&leaf.certificate));
        assert!(one.certificate.is_authority() && !leaf.certificate.is_authority());
        let all = [one.certificate.clone(), leaf.certificate.clone()];
        let join = |key: &str| KeyedCertificate::join(&all, key.as_bytes());
        assert_eq!(join(leaf.key()), Ok(Some(leaf.clone())));
        assert_eq!(join(one.key()), Ok(Some(one.clone())));
        assert_eq!(join(other.key()), Ok(None));
        assert!(join("no key").is_err());
    }

    /// CERT-3: waits are measured by the clock of one leader, whatever the clocks of others show.
    #[test]
    fn a_certificate_is_valid_an_hour_before_it_is_made() {
        let authority = KeyedCertificate::authority(YEAR, wall()).unwrap();
        let leaf = authority.issue(&wanted(), WEEK, wall()).unwrap();
        for made in [&authority.certificate, &leaf.certificate] {
            assert_eq!(made.not_before, earlier(wall(), CLOCK_SKEW));
            assert!(made.is_valid_at(earlier(wall(), Duration::from_secs(600))));
        }
        assert_eq!(authority.certificate.not_after, later(wall(), YEAR));
        assert_eq!(leaf.certificate.not_after, later(wall(), WEEK));
        assert!(!leaf.certificate.is_valid_at(later(wall(), WEEK)));
        // A serving certificate expires no later than its authority.
        let late = later(wall(), YEAR - WEEK / 2);
        let last = authority.issue(&wanted(), WEEK, late).unwrap();
        assert_eq!(last.certificate.not_after, authority.certificate.not_after);
    }

    #[test]
    fn a_text_with_certificates_is_read_as_far_as_possible() {
        let one = KeyedCertificate::authority(YEAR, wall())
            .unwrap()
            .certificate;
        let other = KeyedCertificate::authority(YEAR, wall())
            .unwrap()
            .certificate;
        let both = format!("{}# a comment\n{}{}", one.pem(), other.pem(), one.pem());
        let (read, problem) = ParsedCertificate::all(both.as_bytes());
        assert_eq!((read, problem), (vec![one.clone(), other], None));
        let broken = "-----BEGIN CERTIFICATE-----\neHg=\n-----END CERTIFICATE-----\n";
        let mixed = format!("{broken}{}", one.pem());
        let (read, problem) = ParsedCertificate::all(mixed.as_bytes());
        assert_eq!(read, std::slice::from_ref(&one));
        assert!(problem.is_some_and(|problem| problem.contains("malformed")));
        let cut = &one.pem()[..200];
        for text in ["", "no PEM", cut, broken, "-----BEGIN CERTIFICATE-----\n"] {
            let (read, problem) = ParsedCertificate::all(text.as_bytes());
            assert!(read.is_empty() && problem.is_some(), "{text:?}");
        }
        assert!(ParsedCertificate::all(b"\xff\xfe\n\xff").1.is_some());
    }

    #[test]
    fn extreme_times_and_lifetimes_cause_no_panic() {
        for wall in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            let made = KeyedCertificate::authority(Duration::MAX, wall);
            if let Ok(authority) = made {
                let _ = authority.issue(&wanted(), Duration::MAX, wall);
            }
        }
        let authority = KeyedCertificate::authority(YEAR, wall()).unwrap();
        assert!(authority.issue(&["ü".to_owned()], YEAR, wall()).is_err());
    }
}
