//! Machine: checks a certificate's names against a host (`Certificate.VerifyHostname` of Go).

use std::net::IpAddr;

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

/// The subject alternative names of a certificate. The common name does not count, as in Go.
#[derive(Default)]
struct Names<'a> {
    has_extension: bool,
    dns: Vec<&'a str>,
    addresses: Vec<IpAddr>,
}

/// Checks that a certificate is valid for `host`: a host name, or an IP address without brackets.
pub(super) fn check_host(certificate: &X509Certificate<'_>, host: &str) -> Result<(), String> {
    let names = names(certificate);
    let address: Option<IpAddr> = host.parse().ok();
    let fits = match address {
        Some(address) => names.addresses.iter().any(|one| is_same(*one, address)),
        None => names.dns.iter().any(|pattern| matches(pattern, host)),
    };
    if fits {
        return Ok(());
    }
    let common = certificate.subject().iter_common_name().last();
    let common = common.and_then(|name| name.as_str().ok());
    if !names.has_extension && common.is_some_and(|name| matches(name, host)) {
        let text = "x509: certificate relies on legacy Common Name field, use SANs instead";
        return Err(text.to_owned());
    }
    let valid: Vec<String> = match address {
        Some(_) if names.addresses.is_empty() => {
            return Err(format!(
                "x509: cannot validate certificate for {host} because it doesn't contain any IP SANs"
            ));
        }
        Some(_) => names.addresses.iter().map(IpAddr::to_string).collect(),
        None => names.dns.iter().map(|&name| name.to_owned()).collect(),
    };
    if valid.is_empty() {
        return Err(format!(
            "x509: certificate is not valid for any names, but wanted to match {host}"
        ));
    }
    let valid = valid.join(", ");
    Err(format!(
        "x509: certificate is valid for {valid}, not {host}"
    ))
}

fn names<'a>(certificate: &'a X509Certificate<'_>) -> Names<'a> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return Names::default();
    };
    let mut names = Names {
        has_extension: true,
        ..Names::default()
    };
    for name in &extension.value.general_names {
        match name {
            GeneralName::DNSName(name) => names.dns.push(name),
            GeneralName::IPAddress(bytes) => {
                let four = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                let address = four.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
                names.addresses.extend(address);
            }
            _ => {}
        }
    }
    names
}

/// Returns whether two addresses are equal. An IPv4 address equals its form in IPv6, such as `::ffff:127.0.0.1`.
fn is_same(left: IpAddr, right: IpAddr) -> bool {
    left.to_canonical() == right.to_canonical()
}

/// Returns whether a name in a certificate matches the host. The first label of the name may be `*`.
fn matches(pattern: &str, host: &str) -> bool {
    let exact =
        |left: &str, right: &str| !matches!(left, "" | ".") && left.eq_ignore_ascii_case(right);
    let bare = host.strip_suffix('.').unwrap_or(host);
    if !is_host(bare, false) || !is_host(pattern, true) {
        return exact(pattern, host);
    }
    let (wanted, found) = (pattern.split('.'), bare.split('.'));
    let mut labels = wanted.clone().zip(found.clone()).enumerate();
    wanted.count() == found.count()
        && labels.all(|(at, (wanted, found))| (at == 0 && wanted == "*") || exact(wanted, found))
}

/// Returns whether a text is a valid host name. In a pattern, the first label may also be `*`.
fn is_host(text: &str, is_pattern: bool) -> bool {
    text != "*"
        && text.split('.').enumerate().all(|(at, label)| {
            let starred = is_pattern && at == 0 && label == "*";
            let good = |(at, byte): (usize, u8)| {
                byte.is_ascii_alphanumeric() || byte == b'_' || (byte == b'-' && at > 0)
            };
            starred || (!label.is_empty() && label.bytes().enumerate().all(good))
        })
}
