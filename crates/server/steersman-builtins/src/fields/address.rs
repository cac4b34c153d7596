//! Machine: IP addresses and networks in fields (upstream: `apimachinery/pkg/util/validation/ip.go`).

use std::net::{IpAddr, Ipv4Addr};

use steersman_cel::Cidr;

use super::field_path::FieldPath;

const IP: &str = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
const CIDR: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

/// Parses an address as old versions of Go did, with leading zeros ignored.
pub(crate) fn parse(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    let is_whole = parts.next().is_none();
    is_whole.then(|| Ipv4Addr::from(octets).into())
}

/// A network, with its address as written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network(Cidr);

impl Network {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address = parse(address)?;
        if bits.is_empty() || bits.len() > 3 || !bits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Cidr::new(address, bits.parse().ok()?).map(Self)
    }

    pub(crate) fn is_ipv6(self) -> bool {
        self.0.address().is_ipv6()
    }

    /// Returns whether the other network is a smaller part of this network.
    pub(crate) fn surrounds(self, other: Self) -> bool {
        self.0.contains_network(other.0) && self.0.length() < other.0.length()
    }

    /// Prints the address itself with the length of the prefix, in canonical form.
    fn interface(self) -> String {
        let (address, length) = (self.0.address(), self.0.length());
        let bits = if is_mapped(address) && length > 32 {
            length.saturating_sub(96)
        } else {
            length
        };
        format!("{}/{bits}", usual(address))
    }

    /// Returns whether bits behind the prefix are set.
    fn has_host(self) -> bool {
        self.0.masked() != self.0
    }

    /// Prints the network in canonical form: the bits behind the prefix are zero.
    pub(crate) fn usual(self) -> String {
        let masked = self.0.masked();
        let length = masked.length();
        match masked.address() {
            // An IPv4-mapped IPv6 address is printed as IPv4 address.
            IpAddr::V6(six) => match (six.to_ipv4_mapped(), length.checked_sub(96)) {
                (Some(four), Some(bits)) => format!("{four}/{bits}"),
                _ => format!("{six}/{length}"),
            },
            IpAddr::V4(four) => format!("{four}/{length}"),
        }
    }

    /// Prints the network of the address alone, unless the address is the first one.
    pub(crate) fn single(self) -> Option<String> {
        let address = self.0.address();
        let all = if address.is_ipv4() { 32 } else { 128 };
        self.has_host().then(|| format!("{}/{all}", usual(address)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AddressForm {
    Usual,
    /// An address with leading zeros, or an IPv4 address mapped into IPv6; holds the canonical form.
    Unusual(String),
    /// An IPv6 address that is not shortened as far as possible; holds the shortest form.
    Long(String),
}

/// Prints an address as Go does: an IPv4-mapped address as IPv4 address.
fn usual(address: IpAddr) -> String {
    address.to_canonical().to_string()
}

fn is_mapped(address: IpAddr) -> bool {
    address.to_canonical() != address
}

/// Returns the form of an address. A text that is no address counts as canonical.
pub(crate) fn form(text: &str) -> AddressForm {
    let Some(address) = parse(text) else {
        return AddressForm::Usual;
    };
    match text.parse() {
        Err(_) => AddressForm::Unusual(usual(address)),
        Ok(parsed) if is_mapped(parsed) => AddressForm::Unusual(usual(address)),
        Ok(IpAddr::V6(six)) if six.to_string() != text => AddressForm::Long(six.to_string()),
        Ok(_) => AddressForm::Usual,
    }
}

/// Returns the form of a network. A text that is no network counts as canonical.
pub(crate) fn network_form(text: &str) -> AddressForm {
    let (Some(network), Some((address, bits))) = (Network::parse(text), text.split_once('/'))
    else {
        return AddressForm::Usual;
    };
    match form(address) {
        AddressForm::Long(short) => AddressForm::Long(format!("{short}/{bits}")),
        AddressForm::Usual if bits == network.0.length().to_string() => AddressForm::Usual,
        AddressForm::Usual | AddressForm::Unusual(_) => AddressForm::Unusual(network.usual()),
    }
}

pub(crate) fn check(at: &FieldPath<'_>) {
    let Some(address) = parse(at.text()) else {
        return at.invalid_text(IP);
    };
    if let AddressForm::Unusual(_) = form(at.text()) {
        let wrong = if address.is_ipv4() {
            "must not have leading 0s"
        } else {
            "must not be an IPv4-mapped IPv6 address"
        };
        at.invalid_text(wrong);
    }
}

/// Checks a network. Networks of the old object pass unchecked.
pub(crate) fn check_network(at: &FieldPath<'_>, known: &[&str]) {
    check_network_text(at, at.text(), known);
}

/// Checks a network that is a part of the field's text.
pub(crate) fn check_network_text(at: &FieldPath<'_>, text: &str, known: &[&str]) {
    if known.contains(&text) {
        return;
    }
    let Some(network) = Network::parse(text) else {
        return at.invalid_as(text, CIDR);
    };
    if let AddressForm::Unusual(_) = network_form(text) {
        let wrong = if is_mapped(network.0.address()) {
            "must not have an IPv4-mapped IPv6 address"
        } else {
            "must not have leading 0s in IP or prefix length"
        };
        at.invalid_as(text, wrong);
    } else if network.has_host() {
        at.invalid_as(text, "must not have bits set beyond the prefix length");
    }
}

/// Checks the address of an interface in CIDR form (upstream: `IsValidInterfaceAddress`).
pub(crate) fn check_interface(at: &FieldPath<'_>) {
    let Some(network) = Network::parse(at.text()) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        return at.invalid_text(detail);
    };
    let usual = network.interface();
    if usual != at.text() {
        at.invalid(&format!("must be in canonical form (\"{usual}\")"));
    }
}

/// Refuses addresses that no endpoint can have (upstream: `ValidateNonSpecialIP`).
pub(crate) fn not_special(at: &FieldPath<'_>) {
    let Some(address) = parse(at.text()) else {
        return at.invalid_text("must be a valid IP address");
    };
    if address.is_unspecified() {
        at.invalid_text(&format!("may not be unspecified ({})", at.text()));
    }
    let (local, multicast) = match address {
        IpAddr::V4(address) => (
            address.is_link_local(),
            address.octets()[..3] == [224, 0, 0],
        ),
        IpAddr::V6(address) => (
            address.is_unicast_link_local(),
            address.segments()[0] == 0xff02,
        ),
    };
    if address.is_loopback() {
        at.invalid_text("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if local {
        at.invalid_text("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if multicast {
        at.invalid_text("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_contain_smaller_ones() {
        let network = |text: &str| Network::parse(text).unwrap();
        assert!(network("10.0.0.0/8").surrounds(network("10.1.0.0/16")));
        assert!(!network("10.0.0.0/8").surrounds(network("10.0.0.0/8")));
        assert!(!network("10.0.0.0/8").surrounds(network("11.0.0.0/16")));
        assert!(!network("10.0.0.0/8").surrounds(network("fd00::/16")));
        assert!(network("::/0").surrounds(network("fd00::/16")));
        for wrong in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/", "x/8", "10.0.0.0/+8"] {
            assert!(Network::parse(wrong).is_none(), "{wrong}");
        }
        assert!(network("010.0.0.1/8").has_host() && !network("10.0.0.0/8").has_host());
    }

    /// Source: `apimachinery/pkg/util/validation/ip.go`.
    #[test]
    fn addresses_and_networks_have_a_canonical_form() {
        for (text, expected) in [
            ("10.0.0.1", AddressForm::Usual),
            ("fd00::1", AddressForm::Usual),
            ("010.0.0.1", AddressForm::Unusual("10.0.0.1".to_owned())),
            ("::ffff:1.2.3.4", AddressForm::Unusual("1.2.3.4".to_owned())),
            ("FD00:0::1", AddressForm::Long("fd00::1".to_owned())),
        ] {
            assert_eq!(form(text), expected, "{text}");
        }
        for (text, expected) in [
            ("10.0.0.0/8", AddressForm::Usual),
            ("10.0.0.0/08", AddressForm::Unusual("10.0.0.0/8".to_owned())),
            ("fd00:0::/16", AddressForm::Long("fd00::/16".to_owned())),
        ] {
            assert_eq!(network_form(text), expected, "{text}");
        }
        let single = |text: &str| Network::parse(text).unwrap().single();
        assert_eq!(single("10.0.0.9/8"), Some("10.0.0.9/32".to_owned()));
        assert_eq!(single("10.0.0.0/8"), None);
    }
}
