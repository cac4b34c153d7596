//! Tests of `Trust` with certificates as common tools issue them; the expected refusals are messages of Go's verifier.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, NameConstraints, date_time_ymd,
};

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A generated certificate: as DER to present, and as PEM for a bundle.
#[derive(Clone)]
struct Made {
    der: CertificateDer<'static>,
    pem: String,
}

fn params(common: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common.to_owned());
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2030, 1, 1);
    params
}

fn authority_params(common: &str) -> CertificateParams {
    let mut params = params(common, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn own(params: CertificateParams) -> Authority {
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn below(params: CertificateParams, by: &Authority) -> Authority {
    CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), by).unwrap()
}

/// Issues a serving certificate as envtest does: for `localhost` and its addresses.
fn serving(by: &Authority) -> Made {
    signed(&serving_params(), by)
}

fn serving_params() -> CertificateParams {
    let mut params = params("localhost", &["localhost", "127.0.0.1", "::1"]);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params
}

fn signed(params: &CertificateParams, by: &Authority) -> Made {
    let made = params.signed_by(&KeyPair::generate().unwrap(), by).unwrap();
    Made {
        der: made.der().clone(),
        pem: made.pem(),
    }
}

fn made(authority: &Authority) -> Made {
    Made {
        der: authority.der().clone(),
        pem: authority.pem(),
    }
}

/// Verifies the first certificate of `shown` in the year 2025; the webhook sends the other certificates along with it.
/// Returns the refusal, or `None` if the certificate is trusted.
fn verify(bundle: &str, shown: &[&Made], name: &str) -> Option<String> {
    verify_in(2025, bundle, shown, name)
}

fn verify_in(year: u64, bundle: &str, shown: &[&Made], name: &str) -> Option<String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let trust = match Trust::of(bundle.as_bytes(), None, provider) {
        Ok(trust) => trust,
        Err(why) => return Some(why),
    };
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let now: jiff::Timestamp = format!("{year}-01-01T00:00:00Z").parse().unwrap();
    let now = Duration::from_secs(now.as_second().try_into().unwrap());
    let now = UnixTime::since_unix_epoch(now);
    let others: Vec<_> = shown[1..].iter().map(|one| one.der.clone()).collect();
    let checked = trust.verify_server_cert(&shown[0].der, &others, &name, &[], now);
    match checked {
        Ok(_) => None,
        Err(Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            Some(why.to_string())
        }
        Err(other) => panic!("{other}"),
    }
}

const UNKNOWN: &str = "x509: certificate signed by unknown authority";

/// HOOK-1: a certificate of the bundle is trusted, whatever its issuer. envtest's bundle is the
/// serving certificate alone.
#[test]
fn hook_1_a_certificate_of_the_bundle_is_trusted() {
    let envtest = own(authority_params("envtest-environment"));
    let leaf = serving(&envtest);
    let itself = made(&own(serving_params()));
    let mut both = serving_params();
    both.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let both = made(&own(both));
    for shown in [&leaf, &itself, &both] {
        for name in ["localhost", "LOCALHOST", "127.0.0.1", "::1"] {
            assert_eq!(verify(&shown.pem, &[shown], name), None, "{name}");
        }
        // A trusted certificate is still refused for names that it does not have, and outside of its validity period.
        assert_eq!(
            verify(&shown.pem, &[shown], "hook.example.com").unwrap(),
            "x509: certificate is valid for localhost, not hook.example.com"
        );
        assert_eq!(
            verify(&shown.pem, &[shown], "127.0.0.2").unwrap(),
            "x509: certificate is valid for 127.0.0.1, ::1, not 127.0.0.2"
        );
        assert_eq!(
            verify_in(2031, &shown.pem, &[shown], "localhost").unwrap(),
            "x509: certificate has expired or is not yet valid: current time 2031-01-01T00:00:00Z is after 2030-01-01T00:00:00Z"
        );
        assert_eq!(
            verify_in(2015, &shown.pem, &[shown], "localhost").unwrap(),
            "x509: certificate has expired or is not yet valid: current time 2015-01-01T00:00:00Z is before 2020-01-01T00:00:00Z"
        );
    }
    // A certificate of the same issuer that is not in the bundle is refused, because the bundle holds no authority.
    assert_eq!(
        verify(&leaf.pem, &[&serving(&envtest)], "localhost").unwrap(),
        UNKNOWN
    );
}

#[test]
fn a_chain_that_ends_in_the_bundle_is_trusted() {
    let root = own(authority_params("root"));
    let middle = below(authority_params("middle"), &root);
    let leaf = serving(&middle);
    let (root, middle) = (made(&root), made(&middle));
    let name = "localhost";
    assert_eq!(verify(&root.pem, &[&leaf, &middle], name), None);
    // A webhook may send the root too, and the order of the certificates after the first does not matter.
    assert_eq!(verify(&root.pem, &[&leaf, &root, &middle], name), None);
    assert_eq!(verify(&root.pem, &[&leaf], name).unwrap(), UNKNOWN);
    // Each certificate of a bundle is a root, even one that another authority has issued.
    assert_eq!(verify(&middle.pem, &[&leaf], name), None);
    let other = made(&own(authority_params("other")));
    let bundle = format!("# ours\n{}junk\n{}\n", other.pem, root.pem);
    assert_eq!(verify(&bundle, &[&leaf, &middle], name), None);
    assert_eq!(
        verify(&other.pem, &[&leaf, &middle], name).unwrap(),
        UNKNOWN
    );
    assert_eq!(verify("", &[&leaf, &middle], name).unwrap(), UNKNOWN);
    assert_eq!(
        verify("junk", &[&leaf], name).unwrap(),
        "unable to load root certificates: unable to parse bytes as PEM block"
    );
}

#[test]
fn an_authority_may_serve_and_only_authorities_may_sign() {
    let root = own(authority_params("root"));
    let mut both = serving_params();
    both.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    both.key_usages.push(KeyUsagePurpose::KeyCertSign);
    let both = below(both, &root);
    assert_eq!(verify(&root.pem(), &[&made(&both)], "127.0.0.1"), None);
    let leaf = below(serving_params(), &root);
    let cannot = "x509: invalid signature: parent certificate cannot sign this kind of certificate";
    let hinted = |why: &str, who: &str| {
        format!(
            "{UNKNOWN} (possibly because of \"{why}\" while trying to verify candidate authority certificate \"{who}\")"
        )
    };
    let lower = signed(&params("lower", &["lower.example.com"]), &leaf);
    assert_eq!(
        verify(&leaf.pem(), &[&lower], "lower.example.com").unwrap(),
        hinted(cannot, "localhost")
    );
    assert_eq!(
        verify(&root.pem(), &[&lower, &made(&leaf)], "lower.example.com").unwrap(),
        hinted(cannot, "localhost")
    );
    // An authority with the same name and another key does not make the certificate trusted.
    let other = own(authority_params("root"));
    assert_eq!(
        verify(&other.pem(), &[&serving(&root)], "localhost").unwrap(),
        hinted("x509: ECDSA verification failure", "root")
    );
    let both = format!("{}{}", other.pem(), root.pem());
    assert_eq!(verify(&both, &[&serving(&root)], "localhost"), None);
}

#[test]
fn an_authority_is_limited_by_dates_path_length_and_names() {
    let mut old = authority_params("old");
    old.not_after = date_time_ymd(2021, 1, 1);
    let old = own(old);
    assert_eq!(
        verify(&old.pem(), &[&serving(&old)], "localhost").unwrap(),
        "x509: certificate has expired or is not yet valid: current time 2025-01-01T00:00:00Z is after 2021-01-01T00:00:00Z"
    );
    let mut short = authority_params("short");
    short.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let short = own(short);
    let middle = below(authority_params("middle"), &short);
    assert_eq!(verify(&short.pem(), &[&serving(&short)], "localhost"), None);
    assert_eq!(
        verify(
            &short.pem(),
            &[&serving(&middle), &made(&middle)],
            "localhost"
        )
        .unwrap(),
        "x509: too many intermediates for path length constraint"
    );
    let mut confined = authority_params("confined");
    confined.name_constraints = Some(NameConstraints {
        permitted_subtrees: vec![rcgen::GeneralSubtree::DnsName("hooks.svc".to_owned())],
        excluded_subtrees: Vec::new(),
    });
    let confined = own(confined);
    let good = signed(&params("good", &["judge.hooks.svc"]), &confined);
    let bad = signed(&params("bad", &["judge.other.svc"]), &confined);
    assert_eq!(verify(&confined.pem(), &[&good], "judge.hooks.svc"), None);
    assert_eq!(
        verify(&confined.pem(), &[&bad], "judge.other.svc").unwrap(),
        "x509: a root or intermediate certificate is not authorized to sign for this name: judge.other.svc"
    );
}

#[test]
fn a_webhooks_certificate_needs_the_usage_of_a_server() {
    let root = own(authority_params("root"));
    let with = |usages: &[ExtendedKeyUsagePurpose]| {
        let mut params = serving_params();
        params.extended_key_usages = usages.to_vec();
        // Only extended key usages are checked; `key_usages` is ignored.
        params.key_usages = vec![KeyUsagePurpose::KeyAgreement];
        signed(&params, &root)
    };
    let client = with(&[ExtendedKeyUsagePurpose::ClientAuth]);
    let refusal = "x509: certificate specifies an incompatible key usage";
    for bundle in [&root.pem(), &client.pem] {
        assert_eq!(verify(bundle, &[&client], "localhost").unwrap(), refusal);
    }
    for usages in [
        &[][..],
        &[ExtendedKeyUsagePurpose::Any],
        &[
            ExtendedKeyUsagePurpose::ClientAuth,
            ExtendedKeyUsagePurpose::ServerAuth,
        ],
    ] {
        assert_eq!(verify(&root.pem(), &[&with(usages)], "localhost"), None);
    }
}

#[test]
fn only_names_in_the_extension_count() {
    let root = own(authority_params("root"));
    let of = |common: &str, names: &[&str]| signed(&params(common, names), &root);
    let says = |shown: &Made, name: &str| verify(&root.pem(), &[shown], name);
    let star = of("x", &["*.hooks.svc", "judge.svc"]);
    assert_eq!(says(&star, "judge.hooks.svc"), None);
    assert_eq!(says(&star, "Judge.Hooks.SVC"), None);
    for name in ["hooks.svc", "a.judge.hooks.svc", "other.svc"] {
        assert_eq!(
            says(&star, name).unwrap(),
            format!("x509: certificate is valid for *.hooks.svc, judge.svc, not {name}")
        );
    }
    assert_eq!(
        says(&star, "127.0.0.1").unwrap(),
        "x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
    );
    assert_eq!(
        says(&of("judge.hooks.svc", &[]), "judge.hooks.svc").unwrap(),
        "x509: certificate relies on legacy Common Name field, use SANs instead"
    );
    assert_eq!(
        says(&of("else", &[]), "judge.hooks.svc").unwrap(),
        "x509: certificate is not valid for any names, but wanted to match judge.hooks.svc"
    );
    assert_eq!(
        says(&of("x", &["127.0.0.1"]), "localhost").unwrap(),
        "x509: certificate is not valid for any names, but wanted to match localhost"
    );
}
