//! Words: the address on which a server listens, in the notation of flags.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::error::Error;

/// The address on which a server listens, or no address.
///
/// Made from a text in the notation of controller-runtime's flags, or from a [`SocketAddr`]:
///
/// | text | meaning |
/// |---|---|
/// | empty, or `0` | no server |
/// | `:8081` | port 8081 of all addresses, IPv6 and IPv4 |
/// | `[::]:8081`, `127.0.0.1:8081` | this address |
/// | `localhost:0` | the addresses of this name, and any free port |
///
/// ```
/// use steersman_serve::ListenAddress;
///
/// assert!(ListenAddress::from("0").is_off());
/// assert!(ListenAddress::from("").is_off());
/// assert!(!ListenAddress::from(":8081").is_off());
/// assert!(ListenAddress::from("8081").check().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
#[display("{text}")]
pub struct ListenAddress {
    text: String,
}

impl From<&str> for ListenAddress {
    fn from(text: &str) -> Self {
        Self {
            text: text.trim().to_owned(),
        }
    }
}

impl From<String> for ListenAddress {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<SocketAddr> for ListenAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            text: address.to_string(),
        }
    }
}

impl ListenAddress {
    /// Returns whether the address stands for no server.
    pub fn is_off(&self) -> bool {
        self.text.is_empty() || self.text == "0"
    }

    /// Returns whether only clients on this host reach the server: a loopback address, or the name `localhost`.
    pub fn is_loopback(&self) -> bool {
        match self.candidates() {
            Some(Candidates::Addresses(addresses)) => {
                addresses.iter().all(|address| address.ip().is_loopback())
            }
            Some(Candidates::Name(name, _)) => name == "localhost",
            None => false,
        }
    }

    /// Checks the text. A host name is only resolved when the server listens.
    ///
    /// # Errors
    ///
    /// [`Error::Address`] if the text is not of the form `host:port`.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_off() || self.candidates().is_some() {
            return Ok(());
        }
        let text = self.text.clone();
        Err(Error::Address { text })
    }

    /// Returns the addresses to try. The server listens on the first usable one.
    pub(crate) fn candidates(&self) -> Option<Candidates> {
        let (host, port) = self.text.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        if host.is_empty() {
            // On a host without IPv6, the first address fails.
            let all = [
                SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            ];
            return Some(Candidates::Addresses(all.to_vec()));
        }
        if let Ok(address) = self.text.parse() {
            return Some(Candidates::Addresses(vec![address]));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        host.chars()
            .all(is_name)
            .then(|| Candidates::Name(host.to_owned(), port))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Candidates {
    Addresses(Vec<SocketAddr>),
    /// A host name to resolve, and the port.
    Name(String, u16),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_what_controller_runtime_reads_in_them() {
        let of = |text: &str| ListenAddress::from(text).candidates();
        let all = of(":8081");
        let expected = ["[::]:8081", "0.0.0.0:8081"].map(|text| text.parse().unwrap());
        assert_eq!(all, Some(Candidates::Addresses(expected.to_vec())));
        let one = Candidates::Addresses(vec!["[::1]:0".parse().unwrap()]);
        assert_eq!(of("[::1]:0"), Some(one));
        for (text, is_loopback) in [
            ("127.0.0.1:0", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            (":1", false),
            ("10.0.0.1:1", false),
            ("host:1", false),
            ("0", false),
        ] {
            assert_eq!(
                ListenAddress::from(text).is_loopback(),
                is_loopback,
                "{text}"
            );
        }
        let name = Candidates::Name("localhost".to_owned(), 9443);
        assert_eq!(of("localhost:9443"), Some(name));
        for wrong in [
            "8081", "localhost", "host:port", "host:70000", "a b:1", "::1:80:x",
        ] {
            assert!(ListenAddress::from(wrong).check().is_err(), "{wrong}");
        }
    }
}
