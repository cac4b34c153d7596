//! Machine: the network from which Services get their IP addresses (`service_cluster_ip_range`).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use steersman_auth::OptionError;

const OPTION: &str = "service_cluster_ip_range";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceNetwork {
    /// The network's first address as a number, of 32 bits for IPv4 and 128 bits for IPv6.
    base: u128,
    /// The length of the network's prefix, in bits.
    prefix: u32,
    is_v6: bool,
}

impl Default for ServiceNetwork {
    /// Returns the default network of Services, `10.96.0.0/16`.
    fn default() -> Self {
        Self {
            base: u128::from(u32::from_be_bytes([10, 96, 0, 0])),
            prefix: 16,
            is_v6: false,
        }
    }
}

impl ServiceNetwork {
    /// Parses a CIDR with the rules of kube-apiserver's `--service-cluster-ip-range`: at least eight addresses, and for
    /// IPv6 a prefix of at least 64 bits.
    pub(crate) fn parse(text: &str) -> Result<Self, OptionError> {
        let refuse = |why: String| OptionError::new(OPTION, format!("{text:?} {why}"));
        if text.contains(',') {
            let why = "is more than one network; the server is single-stack, so give one network";
            return Err(refuse(why.to_owned()));
        }
        let parsed = text.split_once('/').and_then(|(address, prefix)| {
            let has_digits = prefix.bytes().all(|byte| byte.is_ascii_digit());
            let prefix = prefix.parse::<u32>().ok().filter(|_| has_digits)?;
            Some((address.parse::<IpAddr>().ok()?, prefix))
        });
        let Some((address, prefix)) = parsed else {
            let why = "is no network; write an address and a prefix, such as 10.96.0.0/16";
            return Err(refuse(why.to_owned()));
        };
        let (number, is_v6, bits, least) = match address {
            IpAddr::V4(address) => (u128::from(address.to_bits()), false, 32, 1),
            IpAddr::V6(address) => (address.to_bits(), true, 128, 64),
        };
        let most = bits - 3;
        if !(least..=most).contains(&prefix) {
            return Err(refuse(format!(
                "has a prefix of {prefix} bits; {least} to {most} bits can be used"
            )));
        }
        let host = (1 << (bits - prefix)) - 1;
        Ok(Self {
            base: number & !host,
            prefix,
            is_v6,
        })
    }

    pub(crate) fn family(&self) -> &'static str {
        if self.is_v6 { "IPv6" } else { "IPv4" }
    }

    /// Returns the largest offset of a Service's address from the network's first address. An IPv4 network's last
    /// address is not used, because it is the broadcast address.
    pub(crate) fn last_offset(&self) -> u32 {
        let bits = if self.is_v6 { 128 } else { 32 };
        let reserved = if self.is_v6 { 1 } else { 2 };
        let last = (1_u128 << (bits - self.prefix)) - reserved;
        u32::try_from(last).unwrap_or(u32::MAX)
    }

    pub(crate) fn address(&self, offset: u32) -> IpAddr {
        let number = self.base | u128::from(offset);
        if self.is_v6 {
            Ipv6Addr::from_bits(number).into()
        } else {
            let number = u32::try_from(number).unwrap_or_default();
            Ipv4Addr::from_bits(number).into()
        }
    }

    /// Returns the address of the Service `kubernetes`: the second address of the network.
    pub(crate) fn first(&self) -> IpAddr {
        self.address(1)
    }

    pub(crate) fn contains(&self, address: &str) -> bool {
        let (number, is_v6, bits) = match address.parse() {
            Ok(IpAddr::V4(address)) => (u128::from(address.to_bits()), false, 32),
            Ok(IpAddr::V6(address)) => (address.to_bits(), true, 128),
            Err(_) => return false,
        };
        is_v6 == self.is_v6 && (number ^ self.base) >> (bits - self.prefix) == 0
    }
}

impl fmt::Display for ServiceNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(0), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_from_the_network_and_leave_out_its_ends() {
        let network = ServiceNetwork::parse("10.0.0.77/29").unwrap();
        assert_eq!(network.first().to_string(), "10.0.0.73");
        assert_eq!(
            network.address(network.last_offset()).to_string(),
            "10.0.0.78"
        );
        assert!(network.contains("10.0.0.72") && network.contains("10.0.0.79"));
        assert!(!network.contains("10.0.0.80") && !network.contains("10.0.0.71"));
        assert!(!network.contains("::a00:48") && !network.contains("None"));
        let network = ServiceNetwork::parse("fd00:1::/112").unwrap();
        assert_eq!(network.first().to_string(), "fd00:1::1");
        assert_eq!(
            network.address(network.last_offset()).to_string(),
            "fd00:1::ffff"
        );
        assert!(network.contains("fd00:1::ab") && !network.contains("fd00:2::ab"));
        assert!(!network.contains("10.0.0.1"));
        let network = ServiceNetwork::parse("fd00:1::/64").unwrap();
        assert_eq!(network.last_offset(), u32::MAX);
        let default = ServiceNetwork::parse("10.96.0.0/16").unwrap();
        assert_eq!(default, ServiceNetwork::default());
        assert_eq!(
            default.address(default.last_offset()).to_string(),
            "10.96.255.254"
        );
    }

    #[test]
    fn a_text_that_is_no_usable_network_is_refused() {
        let refusal = |text: &str| ServiceNetwork::parse(text).unwrap_err().to_string();
        for text in [
            "", "10.0.0.0", "10.0.0.0/", "x/8", "10.0.0.0/+8", "10.0.0/8",
        ] {
            let refusal = refusal(text);
            assert!(refusal.contains("is no network"), "{refusal}");
        }
        assert_eq!(
            refusal("10.0.0.0/30"),
            "the option service_cluster_ip_range cannot be used: \"10.0.0.0/30\" has a prefix of 30 \
             bits; 1 to 29 bits can be used"
        );
        for text in ["10.0.0.0/0", "10.0.0.0/33", "fd00::/63", "fd00::/126"] {
            assert!(refusal(text).contains("can be used"), "{text}");
        }
        assert!(refusal("10.0.0.0/16,fd00::/112").contains("single-stack"));
    }
}
