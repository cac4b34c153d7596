//! Machine: refuses requests to the page that pages of other sites caused.
//!
//! Every page that a browser shows can send requests to loopback. A name of another site that resolves to loopback has
//! that name in `Host`; a form or script of another site has its origin in `Origin`, and lacks the token.

use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName};

use super::form::Form;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The name of the form field with the token.
pub(crate) const TOKEN: &str = "token";

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForeignRequest {
    #[error(
        "the Host header names no loopback address; open the page by the address that the server printed"
    )]
    Host,
    #[error("the request comes from a page of another site")]
    Origin,
    #[error("the form is of an earlier server; load the page again")]
    Token,
}

/// Refuses a request with a `Host` that is not loopback: the page has no other protection against names that resolve to
/// loopback (DNS rebinding).
pub(crate) fn check_host(headers: &HeaderMap) -> Result<(), ForeignRequest> {
    let host = text(headers, &header::HOST).ok_or(ForeignRequest::Host)?;
    if is_loopback(host) {
        Ok(())
    } else {
        Err(ForeignRequest::Host)
    }
}

/// Refuses a request that changes something, unless a form of this server's own page sent it.
pub(crate) fn check_form(
    headers: &HeaderMap,
    form: &Form,
    token: &str,
) -> Result<(), ForeignRequest> {
    let host = text(headers, &header::HOST).unwrap_or_default();
    let own = |origin: &str| origin.strip_prefix("http://") == Some(host);
    if text(headers, &header::ORIGIN).is_some_and(|origin| !own(origin)) {
        return Err(ForeignRequest::Origin);
    }
    let site = text(headers, &FETCH_SITE);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Err(ForeignRequest::Origin);
    }
    // Without a random source the token is empty, and then no form is accepted.
    if token.is_empty() || form.get(TOKEN) != Some(token) {
        return Err(ForeignRequest::Token);
    }
    Ok(())
}

fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address = name.parse::<IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    // A header that is no text counts as the empty text, which no check accepts.
    let value = headers.get(name)?;
    Some(value.to_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn only_names_of_loopback_are_accepted() {
        for host in [
            "127.0.0.1:8080", "127.0.0.9", "localhost:1", "LOCALHOST", "[::1]:80",
        ] {
            assert_eq!(check_host(&headers(&[("host", host)])), Ok(()), "{host}");
        }
        for host in [
            "example.com", "127.0.0.1.example.com:80", "10.0.0.1", "", "[::2]:1",
            "localhost.example.com",
        ] {
            assert!(check_host(&headers(&[("host", host)])).is_err(), "{host}");
        }
        assert_eq!(check_host(&HeaderMap::new()), Err(ForeignRequest::Host));
    }

    #[test]
    fn a_form_needs_the_token_and_the_own_origin() {
        let check = |pairs: &[(&'static str, &str)], form: &str| {
            let mut all = vec![("host", "127.0.0.1:7")];
            all.extend(pairs);
            check_form(&headers(&all), &Form::parse(form.as_bytes()), "secret")
        };
        let own = ("origin", "http://127.0.0.1:7");
        assert_eq!(
            check(&[own, ("sec-fetch-site", "same-origin")], "token=secret"),
            Ok(())
        );
        // A program such as curl sends no origin.
        assert_eq!(check(&[], "token=secret"), Ok(()));
        assert_eq!(check(&[own], "token=guess"), Err(ForeignRequest::Token));
        assert_eq!(check(&[own], ""), Err(ForeignRequest::Token));
        for origin in [
            "null", "http://127.0.0.1:8", "https://127.0.0.1:7", "http://example.com",
        ] {
            let checked = check(&[("origin", origin)], "token=secret");
            assert_eq!(checked, Err(ForeignRequest::Origin), "{origin}");
        }
        let checked = check(&[("sec-fetch-site", "same-site")], "token=secret");
        assert_eq!(checked, Err(ForeignRequest::Origin));
        let empty = check_form(
            &headers(&[("host", "localhost")]),
            &Form::parse(b"token="),
            "",
        );
        assert_eq!(empty, Err(ForeignRequest::Token));
    }
}
