//! Machine: the functions of URLs, IP addresses and networks.

use std::sync::Arc;

use super::{CHARACTERS, CHARACTERS_TWICE, Cost, Row};
use crate::cost_range::{PER_CHARACTER, scaled};
use crate::run::{EvalFailure, EvalOutcome, Run};
use crate::value::addresses::{self, Cidr, Url};
use crate::value::{MapKey, Value};

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("url", "string_to_url (s)U", CHARACTERS, accepts!(|[Value::Text(text)]| parse_url(text))),
    ("isURL", "is_url_string (s)b",
        Cost::PerCall, accepts!(|[Value::Text(text)]| Ok(Value::Bool(Url::parse(text).is_ok())))),
    ("getScheme", "url_get_scheme (U.)s",
        Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(Value::text(url.scheme.as_str())))),
    ("getHost", "url_get_host (U.)s",
        Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(Value::text(url.host.as_str())))),
    ("getHostname", "url_get_hostname (U.)s",
        Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(Value::text(url.hostname())))),
    ("getPort", "url_get_port (U.)s",
        Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(Value::text(url.port())))),
    ("getEscapedPath", "url_get_escaped_path (U.)s",
        Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(Value::text(url.path.as_str())))),
    ("getQuery", "url_get_query (U.)msls", Cost::PerCall, accepts!(|[Value::Url(url)]| Ok(query(url)))),
    ("ip", "string_to_ip (s)P",
        CHARACTERS, accepts!(|[Value::Text(text)]| addresses::ip(text).map(Value::Ip).map_err(EvalFailure::Error))),
    ("ip", "cidr_ip (C.)P", Cost::PerCall, accepts!(|[Value::Cidr(cidr)]| Ok(Value::Ip(cidr.address)))),
    ("isIP", "is_ip (s)b",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::Bool(addresses::ip(text).is_ok())))),
    ("ip.isCanonical", "ip_is_canonical (s)b",
        CHARACTERS_TWICE, accepts!(|[Value::Text(text)]| is_canonical(text))),
    ("family", "family (P.)i",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })))),
    ("isUnspecified", "is_unspecified (P.)b",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Bool(ip.is_unspecified())))),
    ("isLoopback", "is_loopback (P.)b",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Bool(ip.is_loopback())))),
    ("isLinkLocalMulticast", "is_link_local_multicast (P.)b",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Bool(addresses::is_link_local_multicast(*ip))))),
    ("isLinkLocalUnicast", "is_link_local_unicast (P.)b",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Bool(addresses::is_link_local_unicast(*ip))))),
    ("isGlobalUnicast", "is_global_unicast (P.)b",
        Cost::PerCall, accepts!(|[Value::Ip(ip)]| Ok(Value::Bool(addresses::is_global_unicast(*ip))))),
    ("cidr", "string_to_cidr (s)C",
        CHARACTERS, accepts!(|[Value::Text(text)]| Cidr::parse(text).map(Value::Cidr).map_err(EvalFailure::Error))),
    ("isCIDR", "is_cidr (s)b",
        CHARACTERS, accepts!(|[Value::Text(text)]| Ok(Value::Bool(Cidr::parse(text).is_ok())))),
    ("containsIP", "cidr_contains_ip_string (C.s)b cidr_contains_ip_ip (C.P)b",
        Cost::Values(|values| containment(values, 0)), contains_ip),
    ("containsCIDR", "cidr_contains_cidr_string (C.s)b cidr_contains_cidr (C.C)b",
        Cost::Values(|values| containment(values, scaled(network_size(values), PER_CHARACTER) + 1)), contains_cidr),
    ("masked", "masked (C.)C",
        Cost::PerCall, accepts!(|[Value::Cidr(cidr)]| Ok(Value::Cidr(cidr.masked())))),
    ("prefixLength", "prefix_length (C.)i",
        Cost::PerCall, accepts!(|[Value::Cidr(cidr)]| Ok(Value::Int(i64::from(cidr.length))))),
];

fn parse_url<'a>(text: &str) -> EvalOutcome<'a> {
    match Url::without_fragment(text) {
        Ok(url) => Ok(Value::Url(url.into())),
        Err(why) => Err(EvalFailure::Error(format!(
            "URL parse error during conversion from string: {why}"
        ))),
    }
}

fn query<'a>(url: &Url) -> Value<'a> {
    let parameters = url.parameters().into_iter().map(|(name, values)| {
        let values: Vec<_> = values.into_iter().map(Value::text).collect();
        (MapKey::Text(name.into()), Value::List(Arc::new(values)))
    });
    Value::Map(Arc::new(parameters.collect()))
}

fn is_canonical<'a>(text: &str) -> EvalOutcome<'a> {
    let address = addresses::ip(text)?;
    Ok(Value::Bool(address.to_string() == text))
}

fn network_size(values: &[Value<'_>]) -> u64 {
    values.first().map_or(0, Value::size)
}

/// Returns the cost of `containsIP` and `containsCIDR`: of reading the network twice, of parsing the second value if it
/// is a text, and `more` for the other work of the function.
fn containment(values: &[Value<'_>], more: u64) -> u64 {
    let compared = scaled(network_size(values).saturating_mul(2), PER_CHARACTER);
    let parsed = match values.get(1) {
        Some(text @ Value::Text(_)) => scaled(text.size(), PER_CHARACTER),
        _ => 0,
    };
    compared + more + parsed
}

fn contains_ip<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let (cidr, address) = match values {
        [Value::Cidr(cidr), Value::Ip(address)] => (cidr, Ok(*address)),
        [Value::Cidr(cidr), Value::Text(text)] => (cidr, addresses::ip(text)),
        _ => return None,
    };
    // As in Kubernetes, a text that is no IP address fails like a call without a fitting overload.
    let address = address.map_err(|_| EvalFailure::overload());
    Some(address.map(|address| Value::Bool(cidr.contains(address))))
}

fn contains_cidr<'a>(_: &mut Run<'_>, values: &[Value<'a>]) -> Option<EvalOutcome<'a>> {
    let (cidr, other) = match values {
        [Value::Cidr(cidr), Value::Cidr(other)] => (cidr, Ok(*other)),
        [Value::Cidr(cidr), Value::Text(text)] => (cidr, Cidr::parse(text)),
        _ => return None,
    };
    let other = other.map_err(EvalFailure::Error);
    Some(other.map(|other| Value::Bool(cidr.contains_network(other))))
}
