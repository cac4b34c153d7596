//! Words: URLs, IP addresses and IP networks as values of expressions.

use std::net::IpAddr;

use steersman_apimachinery::go;

use super::address_errors::describe;

/// The parts of an absolute URL or absolute path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// The scheme, such as `https`, in lower case; empty for an absolute path.
    pub scheme: String,
    /// The host name, with the port if the URL has one.
    pub host: String,
    /// The path, with its percent escapes.
    pub path: String,
    /// The query with its percent escapes, without the question mark; empty if the URL has none.
    pub query: String,
}

/// An IP network in CIDR notation, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    pub(crate) address: IpAddr,
    /// The length of the prefix, in bits: at most 32 for an IPv4 address, at most 128 for an IPv6 address.
    pub(crate) length: u8,
}

/// The characters that `user:password@` in a URL may contain besides letters and digits.
const USER: &[u8] = b"-._:~!$&'()*+,;=%@";

impl Url {
    /// Parses an absolute URL or an absolute path, as Go's `ParseRequestURI` does.
    ///
    /// # Errors
    /// Fails with Go's message if the text is neither of the two.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("parse {}: {why}", go::quote(text)));
        if text.is_empty() {
            return refused("empty url");
        }
        if text.chars().any(|c| c.is_ascii_control()) {
            return refused("net/url: invalid control character in URL");
        }
        if text == "*" {
            return Ok(Self {
                path: "*".to_owned(),
                ..Self::default()
            });
        }
        let (before, query) = text.split_once('?').unwrap_or((text, ""));
        let (scheme, rest) = match before.find(':') {
            Some(at) if is_scheme(&before[..at]) => (&before[..at], &before[at + 1..]),
            Some(0) => return refused("missing protocol scheme"),
            _ => ("", before),
        };
        if !rest.starts_with('/') {
            if scheme.is_empty() {
                return refused("invalid URI for request");
            }
            // In a URL such as `mailto:a@b`, no path follows the scheme; the rest is opaque and not kept.
            return Ok(Self {
                scheme: scheme.to_lowercase(),
                query: query.to_owned(),
                ..Self::default()
            });
        }
        let (host, path) = match rest.strip_prefix("//") {
            Some(rest) if !scheme.is_empty() || !rest.starts_with('/') => {
                rest.split_at(rest.find('/').unwrap_or(rest.len()))
            }
            _ => ("", rest),
        };
        let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
        let is_fine = |b: u8| b.is_ascii_alphanumeric() || USER.contains(&b);
        if !user.bytes().all(is_fine) {
            return refused("net/url: invalid userinfo");
        }
        if let Some(why) = wrong_host(host) {
            return refused(&why);
        }
        let host = match unescaped_host(host) {
            Ok(host) => host,
            Err(escape) => return refused(&format!("invalid URL escape {escape:?}")),
        };
        if let Some(escape) = wrong_escape(path) {
            return refused(&format!("invalid URL escape {escape:?}"));
        }
        Ok(Self {
            scheme: scheme.to_lowercase(),
            host,
            path: escaped(path),
            query: query.to_owned(),
        })
    }

    /// Parses a URL, and drops its fragment (`#…`).
    pub(crate) fn without_fragment(text: &str) -> Result<Self, String> {
        let whole = Self::parse(text)?;
        match text.split_once('#') {
            Some((before, _)) => Self::parse(before),
            None => Ok(whole),
        }
    }

    /// Returns the host name without the port and without the brackets of an IPv6 address.
    pub fn hostname(&self) -> &str {
        match self.host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self
                .host
                .rsplit_once(':')
                .map_or(&self.host, |(name, _)| name),
        }
    }

    /// Returns the port as text; empty if the URL has none.
    pub fn port(&self) -> &str {
        let after = self.host.rsplit(']').next().unwrap_or_default();
        after.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Returns the names of the query parameters, each with its values.
    pub fn parameters(&self) -> Vec<(String, Vec<String>)> {
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        let parts = self.query.split('&');
        for part in parts.filter(|part| !part.is_empty() && !part.contains(';')) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (Some(name), Some(value)) = (unescaped(name), unescaped(value)) else {
                continue;
            };
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, values)) => values.push(value),
                None => found.push((name, vec![value])),
            }
        }
        found
    }
}

fn is_scheme(text: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    text.starts_with(|c: char| c.is_ascii_alphabetic()) && text.chars().all(is_known)
}

fn wrong_host(host: &str) -> Option<String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((_, after)) = rest.split_once(']') else {
                return Some("missing ']' in host".to_owned());
            };
            after
        }
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !(port.is_empty() || port.starts_with(':') && digits.bytes().all(|b| b.is_ascii_digit())) {
        return Some(format!("invalid port {} after host", go::quote(port)));
    }
    let is_wrong = |c: &char| c.is_whitespace() || "^`{}|\\\"".contains(*c);
    let wrong = go::quote(&host.chars().find(is_wrong)?.to_string());
    Some(format!("invalid character {wrong} in host name"))
}

/// Decodes the percent escapes in the host of a URL. Only bytes that are not ASCII, and the percent sign before the
/// zone of an IPv6 address, may be escaped.
///
/// # Errors
/// Fails with the first escape that is not allowed.
fn unescaped_host(host: &str) -> Result<String, &str> {
    if let Some(escape) = wrong_escape(host) {
        return Err(escape);
    }
    let mut out = Vec::with_capacity(host.len());
    let mut rest = host;
    while let Some((before, after)) = rest.split_once('%') {
        out.extend(before.bytes());
        let (digits, after) = after.split_at_checked(2).ok_or(rest)?;
        let byte = u8::from_str_radix(digits, 16).unwrap_or_default();
        if byte < 0x80 && digits != "25" {
            let at = host.len() - after.len();
            return Err(&host[at - 3..at]);
        }
        out.push(byte);
        rest = after;
    }
    out.extend(rest.bytes());
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Returns the first percent sign that is not followed by two hexadecimal digits, with up to two characters after it.
fn wrong_escape(text: &str) -> Option<&str> {
    text.match_indices('%').find_map(|(at, _)| {
        let digits = text.get(at + 1..at + 3);
        let fine = digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        (!fine).then(|| text.get(at..at + 3).unwrap_or(&text[at..]))
    })
}

/// Percent-encodes the bytes that a URL's path cannot contain. Percent signs stay, and so do the escapes in `path`.
fn escaped(path: &str) -> String {
    use std::fmt::Write as _;

    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn unescaped(text: &str) -> Option<String> {
    go::unescape(&text.replace('+', " "))
}

/// Parses an IP address. Addresses with a zone and IPv4-mapped IPv6 addresses are refused.
pub(crate) fn ip(text: &str) -> Result<IpAddr, String> {
    let lead = format!("IP Address {text:?} parse error during conversion from string");
    let unreadable = || format!("{lead}: {}", describe(text));
    let (address, zone) = text
        .split_once('%')
        .map_or((text, None), |(address, zone)| (address, Some(zone)));
    let parsed: IpAddr = address.parse().map_err(|_| unreadable())?;
    match (parsed, zone) {
        (IpAddr::V6(_), Some(zone)) if !zone.is_empty() => Err(format!(
            "IP address {text:?} with zone value is not allowed"
        )),
        (_, Some(_)) => Err(unreadable()),
        (IpAddr::V6(six), None) if six.to_ipv4_mapped().is_some() => Err(mapped(text)),
        (parsed, None) => Ok(parsed),
    }
}

fn mapped(text: &str) -> String {
    format!("IPv4-mapped IPv6 address {text:?} is not allowed")
}

impl Cidr {
    /// Returns the network of an address and the length of its prefix, in bits; `None` for a prefix longer than the
    /// address, which has 32 or 128 bits. Unlike in expressions, IPv4-mapped IPv6 addresses are accepted.
    pub fn new(address: IpAddr, length: u8) -> Option<Self> {
        let most = if address.is_ipv4() { 32 } else { 128 };
        (length <= most).then_some(Self { address, length })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const LEAD: &str = "network address parse error during conversion from string: ";
        let refused = |why: &str| format!("{LEAD}{LEAD}netip.ParsePrefix({text:?}): {why}");
        let (address, length) = text.rsplit_once('/').ok_or_else(|| refused("no '/'"))?;
        if address.contains('%') {
            return Err(refused("IPv6 zones cannot be present in a prefix"));
        }
        let unreadable = || refused(&describe(address));
        let address: IpAddr = address.parse().map_err(|_| unreadable())?;
        if let IpAddr::V6(six) = address
            && six.to_ipv4_mapped().is_some()
        {
            return Err(format!("{LEAD}{}", mapped(text)));
        }
        let most = if address.is_ipv4() { 32 } else { 128 };
        let plain = !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit());
        let plain = plain && (length == "0" || !length.starts_with('0'));
        if !plain {
            return Err(refused(&format!("bad bits after slash: {length:?}")));
        }
        let length = length.parse::<u8>().ok().filter(|length| *length <= most);
        let length = length.ok_or_else(|| refused("prefix length out of range"))?;
        Ok(Self { address, length })
    }

    /// Returns the address as written; bits after the prefix may be set.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the length of the prefix, in bits: 8 for `10.0.0.0/8`.
    pub fn length(self) -> u8 {
        self.length
    }

    /// Returns the network with the bits after the prefix set to zero: `10.1.2.3/8` becomes `10.0.0.0/8`.
    #[must_use]
    pub fn masked(self) -> Self {
        Self {
            address: masked(self.address, self.length),
            ..self
        }
    }

    pub(crate) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && masked(address, self.length) == masked(self.address, self.length)
    }

    /// Returns whether the other network is this network or a part of this network.
    #[must_use]
    pub fn contains_network(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.address)
    }
}

fn masked(address: IpAddr, length: u8) -> IpAddr {
    match address {
        IpAddr::V4(four) => {
            let bits = u32::from(four);
            let mask = u32::MAX.checked_shl(32 - u32::from(length.min(32)));
            IpAddr::V4((bits & mask.unwrap_or_default()).into())
        }
        IpAddr::V6(six) => {
            let bits = u128::from(six);
            let mask = u128::MAX.checked_shl(128 - u32::from(length.min(128)));
            IpAddr::V6((bits & mask.unwrap_or_default()).into())
        }
    }
}

pub(crate) fn is_link_local_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.octets()[..3] == [224, 0, 0],
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    }
}

pub(crate) fn is_link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.segments()[0] & 0xffc0 == 0xfe80,
    }
}

pub(crate) fn is_global_unicast(address: IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address)
        || broadcast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_their_parts() {
        let url = Url::parse("https://user@example.com:8080/a%20b/c d?x=1&y=2&x=%41+").unwrap();
        assert_eq!(
            (url.scheme.as_str(), url.host.as_str()),
            ("https", "example.com:8080")
        );
        assert_eq!((url.hostname(), url.port()), ("example.com", "8080"));
        assert_eq!(url.path, "/a%20b/c%20d");
        let x = vec!["1".to_owned(), "A ".to_owned()];
        assert_eq!(url.parameters()[0], ("x".to_owned(), x));
        let six = Url::parse("http://[::1]:80").unwrap();
        assert_eq!(
            (six.hostname(), six.port(), six.path.as_str()),
            ("::1", "80", "")
        );
        assert_eq!(Url::parse("/path").unwrap().host, "");
        for wrong in [
            "", "../relative", "https://a:b/", "http://a b/", "http://[::1/", ":80", "/%zz",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_hold_addresses() {
        let net = Cidr::parse("10.1.2.3/16").unwrap();
        assert!(
            net.contains(ip("10.1.255.255").unwrap()) && !net.contains(ip("10.2.0.0").unwrap())
        );
        assert!(!net.contains(ip("::1").unwrap()));
        assert_eq!(net.masked().address, ip("10.1.0.0").unwrap());
        assert!(net.contains_network(Cidr::parse("10.1.8.0/24").unwrap()));
        assert!(!net.contains_network(Cidr::parse("10.0.0.0/8").unwrap()));
        assert!(
            Cidr::parse("0.0.0.0/0")
                .unwrap()
                .contains(ip("1.2.3.4").unwrap())
        );
        for wrong in [
            "10.0.0.0", "10.0.0.0/33", "::/129", "x/8", "1.2.3.4/08", "1.2.3.4/+8",
        ] {
            assert!(Cidr::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3", "01.2.3.4", "x"] {
            assert!(ip(wrong).is_err(), "{wrong}");
        }
        assert!(is_global_unicast(ip("8.8.8.8").unwrap()));
        assert!(is_link_local_unicast(ip("fe80::1").unwrap()));
    }
}
