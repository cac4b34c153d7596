//! Machine: chooses the proxy of a server by the rules of Go's clients. Only http proxies can be used, always with
//! `CONNECT`.

use std::net::IpAddr;

use http::Uri;
use steersman_transport::{NO_PROXY_ADDRESS, check_proxy};

/// The environment variables that choose a proxy (golang.org/x/net/http/httpproxy).
#[derive(Clone, Default, derive_more::Debug)]
// The addresses may hold passwords.
#[debug("ProxyVariables {{ exceptions: {exceptions:?}, .. }}")]
pub(crate) struct ProxyVariables {
    /// `HTTPS_PROXY`, for servers with https.
    https: String,
    /// `HTTP_PROXY`, for servers without TLS.
    http: String,
    /// `NO_PROXY`: the servers that are reached without a proxy.
    exceptions: String,
}

impl ProxyVariables {
    /// Reads the variables. For each, the name in upper case wins over the name in lower case.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let first = |name: &str| set(name).or_else(|| set(&name.to_ascii_lowercase()));
        Self {
            https: first("HTTPS_PROXY").unwrap_or_default(),
            http: first("HTTP_PROXY").unwrap_or_default(),
            exceptions: first("NO_PROXY").unwrap_or_default(),
        }
    }

    /// Returns the proxy of a server; `None` if it is reached without a proxy.
    ///
    /// # Errors
    ///
    /// A text with the variable and the problem.
    pub(crate) fn proxy_of(&self, server: &Uri) -> Result<Option<Uri>, String> {
        let (name, proxy) = match is_https(server) {
            true => ("HTTPS_PROXY", &self.https),
            false => ("HTTP_PROXY", &self.http),
        };
        if proxy.is_empty() || self.is_excepted(server) {
            return Ok(None);
        }
        let proxy = parse_proxy(proxy).map_err(|problem| format!("{name}: {problem}"));
        proxy.map(Some)
    }

    fn is_excepted(&self, server: &Uri) -> bool {
        if is_local(server) {
            return true;
        }
        let host = host(server);
        let address: Option<IpAddr> = host.parse().ok();
        let default = if is_https(server) { 443 } else { 80 };
        let port = server.port_u16().unwrap_or(default);
        let mut entries = self.exceptions.split(',');
        entries.any(|entry| excepts(&entry.trim().to_ascii_lowercase(), &host, address, port))
    }
}

/// Returns whether the name or address of a server is that of this machine.
pub(crate) fn is_local(server: &Uri) -> bool {
    let host = host(server);
    let address: Option<IpAddr> = host.parse().ok();
    host == "localhost" || address.is_some_and(|address| address.is_loopback())
}

/// Returns the host of a server in lower case, without the brackets of an address.
fn host(server: &Uri) -> String {
    let host = server.host().unwrap_or_default().to_ascii_lowercase();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.to_owned()
}

/// Parses the address of a proxy. Without a scheme it is the address of an http proxy, as in Go.
///
/// # Errors
///
/// A text with the problem.
pub(crate) fn parse_proxy(text: &str) -> Result<Uri, String> {
    let text = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let proxy: Uri = text.parse().map_err(|_| NO_PROXY_ADDRESS.to_owned())?;
    check_proxy(&proxy)?;
    Ok(proxy)
}

fn is_https(server: &Uri) -> bool {
    server.scheme_str() == Some("https")
}

/// Returns whether an entry of `NO_PROXY`, in lower case, applies to a server.
fn excepts(entry: &str, host: &str, address: Option<IpAddr>, port: u16) -> bool {
    if entry.is_empty() {
        return false;
    }
    if entry == "*" {
        return true;
    }
    if let Some(range) = AddressRange::parse(entry) {
        return address.is_some_and(|address| range.contains(address));
    }
    let (name, its_port) = split_port(entry);
    let has_port = its_port.is_none_or(|its_port| its_port == port.to_string());
    if let Ok(excepted) = name.parse::<IpAddr>() {
        return address == Some(excepted) && has_port;
    }
    let below = name.strip_prefix("*.").or_else(|| name.strip_prefix('.'));
    let is_named = match below {
        Some(domain) => is_below(host, domain),
        None => !name.is_empty() && (host == name || is_below(host, name)),
    };
    is_named && has_port
}

fn is_below(host: &str, domain: &str) -> bool {
    let below = host.strip_suffix(domain);
    below.is_some_and(|below| below.ends_with('.'))
}

fn split_port(entry: &str) -> (&str, Option<&str>) {
    let bare = |host: &'_ str| host.starts_with('[') && host.ends_with(']');
    match entry.rsplit_once(':') {
        _ if bare(entry) => (&entry[1..entry.len() - 1], None),
        Some((host, port)) if bare(host) => (&host[1..host.len() - 1], Some(port)),
        // A text with more colons is an IPv6 address without a port.
        Some((host, port)) if !host.contains(':') => (host, Some(port)),
        _ => (entry, None),
    }
}

/// The addresses of a network, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug)]
struct AddressRange {
    address: IpAddr,
    bits: u32,
}

impl AddressRange {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
        Some(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        let same_bits = match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return false,
        };
        same_bits >= self.bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> ProxyVariables {
        ProxyVariables::read(|name| {
            let pair = pairs.iter().find(|(known, _)| *known == name);
            pair.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_choose_the_proxy_by_the_scheme_of_the_server() {
        let of = |pairs: &[(&str, &str)], server: &str| {
            let proxy = variables(pairs).proxy_of(&server.parse().unwrap());
            proxy.unwrap().map(|proxy| proxy.to_string())
        };
        let both = [("HTTPS_PROXY", "http://a:1"), ("http_proxy", "b:2")];
        let tls = "https://api.example.com:6443";
        assert_eq!(of(&both, tls).as_deref(), Some("http://a:1/"));
        let plain = "http://api.example.com";
        assert_eq!(of(&both, plain).as_deref(), Some("http://b:2/"));
        assert_eq!(of(&[("HTTP_PROXY", "b:2")], tls), None);
        let cases = [("HTTPS_PROXY", ""), ("https_proxy", "http://c:3")];
        assert_eq!(of(&cases, tls).as_deref(), Some("http://c:3/"));
        assert_eq!(of(&[], tls), None);
    }

    /// The cases of Go's `httpproxy`, `UseProxyTests`.
    #[test]
    fn no_proxy_excepts_what_it_excepts_in_go() {
        let list = "foobar.com, .barbaz.net, *.quux.org, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80, \
                    10.0.0.0/30, 2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80, \
                    2002:db8:a::45/64, port.com:6443,";
        let proxied = |host: &str| {
            let server = format!("https://{host}").parse().unwrap();
            let set = variables(&[("HTTPS_PROXY", "proxy"), ("NO_PROXY", list)]);
            set.proxy_of(&server).unwrap().is_some()
        };
        for (host, expected) in [
            ("localhost", false),
            ("127.0.0.1", false),
            ("127.0.0.2", false),
            ("[::1]", false),
            ("[::2]", true),
            ("192.168.1.1", false),
            ("192.168.1.2", true),
            ("192.168.1.3:80", false),
            ("192.168.1.4", true),
            ("10.0.0.2", false),
            ("10.0.0.4", true),
            ("[2001:db8::52:0:1]", false),
            ("[2001:db8::52:0:2]", false),
            ("[2001:db8::52:0:3]", true),
            ("[2002:db8:a::123]", false),
            ("[fe80::424b:c8be:1643:a1b6]", true),
            ("barbaz.net", true),
            ("www.barbaz.net", false),
            ("foobar.com", false),
            ("FooBar.com", false),
            ("www.foobar.com", false),
            ("foofoobar.com", true),
            ("quux.org", true),
            ("a.quux.org", false),
            ("baz.com", true),
            ("localhost.net", true),
            ("port.com", true),
            ("port.com:6443", false),
            ("a.port.com:6443", false),
        ] {
            assert_eq!(proxied(host), expected, "{host}");
        }
        let nothing = variables(&[("HTTPS_PROXY", "proxy"), ("no_proxy", "a, *")]);
        let server = "https://example.com".parse().unwrap();
        assert_eq!(nothing.proxy_of(&server), Ok(None));
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_named_without_its_password() {
        for (address, problem) in [
            ("socks5://me:hunter2@proxy:1080", "socks5"),
            ("https://me:hunter2@proxy", "https"),
            ("http://me:hunter2 @proxy", "http://proxy:3128"),
            ("ftp://me:hunter2@proxy", "http://proxy:3128"),
        ] {
            let set = variables(&[("HTTPS_PROXY", address)]);
            let server = "https://example.com".parse().unwrap();
            let error = set.proxy_of(&server).unwrap_err();
            assert!(error.contains(problem), "{error}");
            assert!(error.contains("HTTPS_PROXY"), "{error}");
            let shown = format!("{error} {set:?}");
            assert!(!shown.contains("hunter2"), "{shown}");
        }
    }
}
