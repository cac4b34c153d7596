//! Machine: verifies a certificate chain as Go's `crypto/x509` does (`verify.go`), with its messages.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use steersman_apimachinery::go;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::{
    OID_KEY_TYPE_EC_PUBLIC_KEY, OID_SIG_ED25519, OID_X509_EXT_SUBJECT_ALT_NAME,
};
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Version;

/// Maximum number of signatures that are checked for one certificate, so that a hostile chain costs little time.
const MOST_CHECKS: usize = 100;

const CANNOT_SIGN: &str =
    "x509: invalid signature: parent certificate cannot sign this kind of certificate";

pub(crate) struct Pool<'a> {
    /// The trusted certificates. Each is trusted, independently of its issuer.
    pub(crate) roots: &'a [X509Certificate<'a>],
    /// The other certificates that a peer sent with its own. They are not trusted by themselves: each needs an issuer.
    pub(crate) others: &'a [X509Certificate<'a>],
    pub(crate) now: i64,
    pub(crate) purpose: KeyPurpose,
}

/// What a certificate is used for. The extended key usages of every certificate of a chain have to allow this purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyPurpose {
    Server,
    Client,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CertificateRole {
    Leaf,
    Intermediate,
    Root,
}

#[derive(Default)]
struct Search {
    checks: usize,
    failure: Option<String>,
}

type Chain<'a> = Vec<&'a X509Certificate<'a>>;

impl<'a> Pool<'a> {
    /// Checks the dates and extensions of a leaf, the certificate at the beginning of a chain, but not its names.
    pub(crate) fn check_leaf(&self, leaf: &X509Certificate<'_>) -> Result<(), String> {
        self.check(leaf, CertificateRole::Leaf, 0)
    }

    /// Finds a chain from `leaf` to a trusted certificate. Every certificate of the chain must allow the purpose. A
    /// trusted leaf is a chain by itself (HOOK-1: such a certificate is accepted).
    pub(crate) fn chain(&self, leaf: &'a X509Certificate<'a>) -> Result<Chain<'a>, String> {
        let chains = if self.roots.iter().any(|root| root.as_raw() == leaf.as_raw()) {
            vec![vec![leaf]]
        } else {
            let mut search = Search::default();
            self.build(&[leaf], &mut search)?
        };
        let mut chains = chains.into_iter();
        let usable = chains.find(|chain| chain.iter().all(|one| self.purpose.is_allowed(one)));
        usable.ok_or_else(|| "x509: certificate specifies an incompatible key usage".to_owned())
    }

    /// Extends a chain by every possible issuer of its last certificate, until it ends with a trusted certificate.
    /// Returns all such chains.
    fn build(
        &self,
        chain: &[&'a X509Certificate<'a>],
        search: &mut Search,
    ) -> Result<Vec<Chain<'a>>, String> {
        let Some(child) = chain.last() else {
            return Ok(Vec::new());
        };
        let (mut found, mut hint) = (Vec::new(), None);
        search.failure = None;
        let roots = self.roots.iter().map(|one| (CertificateRole::Root, one));
        let others = self.others.iter();
        let others = others.map(|one| (CertificateRole::Intermediate, one));
        for (role, candidate) in roots.chain(others) {
            let is_parent = candidate.subject().as_raw() == child.issuer().as_raw();
            if !is_parent || chain.iter().any(|known| is_same(known, candidate)) {
                continue;
            }
            search.checks += 1;
            if search.checks > MOST_CHECKS {
                let text = "x509: signature check attempts limit reached while verifying certificate chain";
                search.failure = Some(text.to_owned());
                continue;
            }
            if let Err(why) = check_signature(child, candidate) {
                hint.get_or_insert((why, candidate));
                continue;
            }
            if let Err(why) = self.check(candidate, role, chain.len()) {
                hint.get_or_insert((why.clone(), candidate));
                search.failure = Some(why);
                continue;
            }
            let mut longer = chain.to_vec();
            longer.push(candidate);
            if role == CertificateRole::Root {
                found.push(longer);
            } else {
                match self.build(&longer, search) {
                    Ok(chains) => found.extend(chains),
                    Err(why) => search.failure = Some(why),
                }
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        Err(search.failure.take().unwrap_or_else(|| unknown(hint)))
    }

    /// Checks the extensions and dates of a certificate, and whether it may sign others. `depth` certificates of the
    /// chain precede it (`Certificate.isValid` of Go).
    fn check(
        &self,
        certificate: &X509Certificate<'_>,
        role: CertificateRole,
        depth: usize,
    ) -> Result<(), String> {
        let is_strange = |parsed: &ParsedExtension<'_>| {
            matches!(
                parsed,
                ParsedExtension::UnsupportedExtension { .. } | ParsedExtension::ParseError { .. }
            )
        };
        let mut critical = certificate.extensions().iter().filter(|one| one.critical);
        if critical.any(|one| is_strange(one.parsed_extension())) {
            return Err("x509: unhandled critical extension".to_owned());
        }
        let validity = certificate.validity();
        let from = validity.not_before.timestamp();
        let until = validity.not_after.timestamp();
        let expired = |relation: &str, limit: i64| {
            let (now, limit) = (date(self.now), date(limit));
            Err(format!(
                "x509: certificate has expired or is not yet valid: current time {now} is {relation} {limit}"
            ))
        };
        if self.now < from {
            return expired("before", from);
        }
        if self.now > until {
            return expired("after", until);
        }
        let constraints = certificate.basic_constraints().ok().flatten();
        let constraints = constraints.map(|extension| extension.value);
        if role == CertificateRole::Intermediate && !constraints.is_some_and(|own| own.ca) {
            return Err(
                "x509: certificate is not authorized to sign other certificates".to_owned(),
            );
        }
        let most = constraints.and_then(|own| own.path_len_constraint);
        let between = u32::try_from(depth.saturating_sub(1)).unwrap_or(u32::MAX);
        if most.is_some_and(|most| between > most) {
            return Err("x509: too many intermediates for path length constraint".to_owned());
        }
        Ok(())
    }
}

impl KeyPurpose {
    /// Returns whether the extended key usages of a certificate allow this purpose. A certificate without such usages
    /// allows every purpose.
    fn is_allowed(self, certificate: &X509Certificate<'_>) -> bool {
        match certificate.extended_key_usage() {
            Ok(Some(usage)) => {
                let usage = usage.value;
                usage.any
                    || match self {
                        Self::Server => usage.server_auth,
                        Self::Client => usage.client_auth,
                    }
            }
            Ok(None) => true,
            Err(_) => false,
        }
    }
}

/// Returns whether two certificates are the same link of a chain: same subject, key and names.
fn is_same(left: &X509Certificate<'_>, right: &X509Certificate<'_>) -> bool {
    fn names<'a>(one: &'a X509Certificate<'_>) -> Option<&'a [u8]> {
        let mut all = one.extensions().iter();
        let found = all.find(|extension| extension.oid == OID_X509_EXT_SUBJECT_ALT_NAME);
        found.map(|extension| extension.value)
    }
    left.subject().as_raw() == right.subject().as_raw()
        && left.public_key().raw == right.public_key().raw
        && names(left) == names(right)
}

/// Checks that `parent` signed `child` and was allowed to (`Certificate.CheckSignatureFrom` of Go).
fn check_signature(
    child: &X509Certificate<'_>,
    parent: &X509Certificate<'_>,
) -> Result<(), String> {
    let constraints = parent.basic_constraints().ok().flatten();
    let is_old = parent.version() != X509Version::V3;
    let is_authority = constraints.map_or(is_old, |own| own.value.ca);
    let usage = parent.key_usage().ok().flatten();
    let may_sign = usage.is_none_or(|usage| usage.value.flags == 0 || usage.value.key_cert_sign());
    if !is_authority || !may_sign {
        return Err(CANNOT_SIGN.to_owned());
    }
    if child.verify_signature(Some(parent.public_key())).is_ok() {
        return Ok(());
    }
    let kind = &parent.public_key().algorithm.algorithm;
    let text = if *kind == OID_KEY_TYPE_EC_PUBLIC_KEY {
        "x509: ECDSA verification failure"
    } else if *kind == OID_SIG_ED25519 {
        "x509: Ed25519 verification failure"
    } else {
        "crypto/rsa: verification error"
    };
    Err(text.to_owned())
}

/// Builds the message about an unknown authority. `hint` is the first certificate that could have been the issuer, and
/// why it is not.
fn unknown(hint: Option<(String, &X509Certificate<'_>)>) -> String {
    let unknown = "x509: certificate signed by unknown authority";
    let Some((why, candidate)) = hint else {
        return unknown.to_owned();
    };
    let subject = candidate.subject();
    let common = subject.iter_common_name().last();
    let name = common.or_else(|| subject.iter_organization().next());
    let name = name.and_then(|name| name.as_str().ok());
    let name = match name.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None => format!("serial:{}", candidate.tbs_certificate.serial),
    };
    let (why, name) = (go::quote(&why), go::quote(&name));
    format!(
        "{unknown} (possibly because of {why} while trying to verify candidate authority certificate {name})"
    )
}

/// Parses a certificate; `None` if it is no X.509, or if other bytes follow.
pub(crate) fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    let (rest, parsed) = X509Certificate::from_der(certificate).ok()?;
    rest.is_empty().then_some(parsed)
}

fn date(seconds: i64) -> String {
    let time = Timestamp::from_second(seconds);
    time.map_or_else(|_| seconds.to_string(), |time| time.to_string())
}
