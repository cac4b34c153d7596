//! Machine: the validity of a certificate chain, and its state at a time.

use k8s_openapi::jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The validity of a certificate chain: the period in which all its certificates are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateTimes {
    /// The latest start of validity of a certificate in the chain.
    pub not_before: Timestamp,
    /// The earliest end of validity of a certificate in the chain.
    pub not_after: Timestamp,
}

/// The state of a certificate chain at a time.
///
/// `Display` prints a text for people. The text does not name the source of the certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub enum CertificateState {
    /// The chain becomes valid at this time.
    #[display("the certificate is not valid before {_0}")]
    NotYetValid(Timestamp),
    /// The chain is valid.
    #[display("the certificate is valid")]
    Valid,
    /// The chain is valid until this time, which is less than 14 days and less than a quarter of its lifetime away.
    #[display("the certificate expires at {_0}")]
    ExpiresSoon(Timestamp),
    /// The chain has expired at this time.
    #[display("the certificate expired at {_0}")]
    Expired(Timestamp),
}

/// The remaining lifetime in seconds below which a renewal is late. Issuers renew earlier: cert-manager when a third of
/// the lifetime is left, which is 30 days by default.
const LATE: i64 = 14 * 24 * 3600;

impl CertificateTimes {
    /// Reads a PEM chain. Returns `None` for a text without a certificate or with an invalid one.
    #[must_use]
    pub fn of_pem(chain: &[u8]) -> Option<Self> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
        Self::of_chain(&chain.ok()?)
    }

    /// Reads a DER chain like [`of_pem`](Self::of_pem).
    #[must_use]
    pub fn of_chain(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let mut times: Option<Self> = None;
        for der in chain {
            let (_, certificate) = X509Certificate::from_der(der).ok()?;
            let one = Self::of(&certificate);
            times = Some(times.map_or(one, |all| Self {
                not_before: all.not_before.max(one.not_before),
                not_after: all.not_after.min(one.not_after),
            }));
        }
        times
    }

    pub(crate) fn of(certificate: &X509Certificate<'_>) -> Self {
        let validity = certificate.validity();
        Self {
            not_before: timestamp(validity.not_before.timestamp()),
            not_after: timestamp(validity.not_after.timestamp()),
        }
    }

    /// Returns the state of the chain at a time.
    pub fn state(&self, wall: Timestamp) -> CertificateState {
        let seconds =
            |from: Timestamp, to: Timestamp| to.as_second().saturating_sub(from.as_second());
        let quarter = seconds(self.not_before, self.not_after) / 4;
        let late = quarter.min(LATE);
        if wall < self.not_before {
            CertificateState::NotYetValid(self.not_before)
        } else if wall > self.not_after {
            CertificateState::Expired(self.not_after)
        } else if seconds(wall, self.not_after) < late {
            CertificateState::ExpiresSoon(self.not_after)
        } else {
            CertificateState::Valid
        }
    }
}

impl CertificateState {
    /// Returns whether a client that verifies certificates refuses a chain in this state.
    #[must_use]
    pub fn is_refused(self) -> bool {
        matches!(self, Self::NotYetValid(_) | Self::Expired(_))
    }
}

/// Converts seconds since 1970 to a time. Seconds out of range become the nearest valid ones.
pub(crate) fn timestamp(seconds: i64) -> Timestamp {
    let clamped = seconds.clamp(Timestamp::MIN.as_second(), Timestamp::MAX.as_second());
    Timestamp::from_second(clamped).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    const DAY: i64 = 24 * 3600;

    fn at(days: i64) -> Timestamp {
        Timestamp::from_second(days * DAY).unwrap()
    }

    fn times(from: i64, to: i64) -> CertificateTimes {
        CertificateTimes {
            not_before: at(from),
            not_after: at(to),
        }
    }

    #[test]
    fn a_certificate_is_late_two_weeks_or_a_quarter_of_its_lifetime_before_its_end() {
        use CertificateState::{Expired, ExpiresSoon, NotYetValid, Valid};
        let (year, short) = (times(100, 465), times(100, 108));
        for (times, day, state) in [
            (year, 99, NotYetValid(at(100))),
            (year, 100, Valid),
            (year, 451, Valid),
            (year, 452, ExpiresSoon(at(465))),
            (year, 465, ExpiresSoon(at(465))),
            (year, 466, Expired(at(465))),
            (short, 106, Valid),
            (short, 107, ExpiresSoon(at(108))),
        ] {
            assert_eq!(times.state(at(day)), state, "{times:?} at day {day}");
        }
        assert!(Expired(at(1)).is_refused() && NotYetValid(at(1)).is_refused());
        assert!(!Valid.is_refused() && !ExpiresSoon(at(1)).is_refused());
    }

    #[test]
    fn a_chain_is_valid_while_each_of_its_certificates_is() {
        let made = |from: i32, to: i32| {
            let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(to, 1, 1);
            params
                .self_signed(&KeyPair::generate().unwrap())
                .unwrap()
                .pem()
        };
        let chain = format!("{}{}", made(2020, 2060), made(2010, 2050));
        let read = CertificateTimes::of_pem(chain.as_bytes()).unwrap();
        assert_eq!(
            (read.not_before.to_string(), read.not_after.to_string()),
            (
                "2020-01-01T00:00:00Z".to_owned(),
                "2050-01-01T00:00:00Z".to_owned()
            )
        );
        for text in ["", "no PEM"] {
            assert_eq!(CertificateTimes::of_pem(text.as_bytes()), None);
        }
    }
}
