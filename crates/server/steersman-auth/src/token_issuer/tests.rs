//! Tests of the issuer: the tokens that it accepts, and the metadata and keys that it publishes.

use super::*;

const RSA: &str = include_str!("../../testdata/keys/rsa-pkcs8.pem");
const RSA_CERTIFICATE: &str = include_str!("../../testdata/keys/rsa-certificate.pem");
const EC: &str = include_str!("../../testdata/keys/ec-sec1.pem");
const EC_PUBLIC: &str = include_str!("../../testdata/keys/ec-public.pem");

fn issuer(options: &TokenOptions) -> TokenIssuer {
    TokenIssuer::new(options, TokenSecret::new([1; 32]))
}

fn signing_with(pem: &str) -> TokenIssuer {
    issuer(&TokenOptions {
        signing_key: Some(pem.to_owned()),
        ..TokenOptions::default()
    })
}

fn claims() -> Value {
    json!({ "iss": ISSUER, "sub": "a" })
}

fn refused(issuer: &TokenIssuer, token: &str) -> &'static str {
    match issuer.claims(token) {
        Err(ForeignToken::Unknown) => "unknown",
        Err(ForeignToken::Signature(why)) => why,
        Ok(_) => "accepted",
    }
}

const NO_KEYS: &str = "invalid signature, no keys found";
const INVALID: &str = "go-jose/go-jose: error in cryptographic primitive";

/// AUTH-2: only tokens that the server signed are accepted.
#[test]
fn a_token_that_was_changed_or_signed_by_another_key_is_refused() {
    for own in [
        issuer(&TokenOptions::default()),
        signing_with(RSA),
        signing_with(EC),
    ] {
        let token = own.issue(&claims()).unwrap();
        for _ in 0..2 {
            assert_eq!(own.claims(&token), Ok(claims()));
        }
        let other = TokenIssuer::new(&TokenOptions::default(), TokenSecret::new([2; 32]));
        assert_eq!(refused(&other, &token), NO_KEYS);
        let (text, signature) = token.rsplit_once('.').unwrap();
        let (header, body) = text.split_once('.').unwrap();
        let encode = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let forged = encode(json!({ "iss": ISSUER, "sub": "b" }));
        assert_eq!(
            refused(&own, &format!("{header}.{forged}.{signature}")),
            INVALID
        );
        // For a token without a key id, every key is tried; the header cannot choose the algorithm.
        let id = own.key_set()["keys"][0]["kid"].clone();
        for (header, expected) in [
            (json!({ "alg": "none" }), INVALID),
            (json!({ "alg": "HS256", "kid": id }), INVALID),
            (json!({ "alg": "RS256" }), INVALID),
            (json!({ "alg": "RS256", "kid": "x" }), NO_KEYS),
        ] {
            let token = format!("{}.{body}.{signature}", encode(header));
            assert_eq!(refused(&own, &token), expected);
        }
        let odd = [
            "",
            ".",
            "..",
            "...",
            "a.b.c",
            &format!("{text}."),
            &format!("x.{token}"),
        ];
        for token in odd {
            assert_ne!(refused(&own, token), "accepted", "{token}");
        }
    }
}

#[test]
fn many_tokens_are_accepted_and_a_new_secret_forgets_them() {
    let mut own = issuer(&TokenOptions::default());
    let sign = |number: usize| json!({ "iss": ISSUER, "jti": number.to_string() });
    let tokens: Vec<String> = (0..VERIFIED + 2)
        .map(|number| own.issue(&sign(number)).unwrap())
        .collect();
    for (number, token) in tokens.iter().enumerate() {
        assert_eq!(own.claims(token), Ok(sign(number)));
        assert!(own.verified.borrow().len() <= VERIFIED);
    }
    assert_eq!(own.claims(&tokens[0]), Ok(sign(0)));
    own.set_secret(TokenSecret::new([2; 32]));
    for token in &tokens {
        assert_eq!(refused(&own, token), NO_KEYS);
    }
}

#[test]
fn the_same_secret_signs_the_same_token() {
    let sign = || issuer(&TokenOptions::default()).issue(&claims()).unwrap();
    assert_eq!(sign(), sign());
    let text = TokenSecret::new([7; 32]).to_text();
    assert_eq!(TokenSecret::from_text(&text).unwrap().to_text(), text);
    assert!(TokenSecret::from_text("AAAA").is_none());
}

/// AUTH-8: the first issuer issues new tokens, and tokens of all issuers and keys are accepted.
#[test]
fn tokens_of_each_issuer_and_of_each_key_are_accepted() {
    let (first, second) = ("https://one", "https://two");
    let own = issuer(&TokenOptions {
        issuers: vec![first.to_owned(), second.to_owned()],
        signing_key: Some(EC.to_owned()),
        keys: vec![EC_PUBLIC.to_owned(), RSA_CERTIFICATE.to_owned()],
        ..TokenOptions::default()
    });
    assert_eq!(own.name(), first);
    assert_eq!(own.audiences(), [first, second]);
    let old = signing_with(RSA);
    for (issuer, expected) in [
        (first, "accepted"),
        (second, "accepted"),
        (ISSUER, "unknown"),
    ] {
        for signer in [&own, &old] {
            let token = signer.issue(&json!({ "iss": issuer })).unwrap();
            assert_eq!(refused(&own, &token), expected);
        }
    }
    // With a configured key, the server's own key signs and verifies nothing, so its tokens are refused.
    let derived = issuer(&TokenOptions::default());
    let token = derived.issue(&json!({ "iss": first })).unwrap();
    assert_eq!(refused(&own, &token), NO_KEYS);
    let keys = own.key_set()["keys"].clone();
    let algorithms: Vec<&str> = keys
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["alg"].as_str().unwrap())
        .collect();
    assert_eq!(
        algorithms,
        ["ES256", "RS256"],
        "each key once, that of new tokens first"
    );
}

#[test]
fn the_metadata_names_the_key_set_and_the_algorithms() {
    let own = issuer(&TokenOptions {
        keys: vec![RSA.to_owned()],
        ..TokenOptions::default()
    });
    let expected = json!({
        "issuer": ISSUER,
        "jwks_uri": "https://127.0.0.1:6443/openid/v1/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["EdDSA", "RS256"],
    });
    assert_eq!(own.metadata(Some("https://127.0.0.1:6443")), Some(expected));
    let of = |issuer_name: &str, jwks_uri: Option<&str>| {
        issuer(&TokenOptions {
            issuers: vec![issuer_name.to_owned()],
            jwks_uri: jwks_uri.map(str::to_owned),
            ..TokenOptions::default()
        })
        .metadata(None)
        .map(|metadata| metadata["jwks_uri"].clone())
    };
    assert_eq!(
        of("https://a/", None),
        Some(json!("https://a/openid/v1/jwks"))
    );
    assert_eq!(
        of("https://a", Some("https://b/k")),
        Some(json!("https://b/k"))
    );
    for (issuer, jwks_uri) in [
        ("kubernetes/serviceaccount", None),
        ("http://a", None),
        ("https://", None),
        ("https://a?b", None),
        ("https://a#b", None),
        ("https://a", Some("http://b")),
    ] {
        assert_eq!(of(issuer, jwks_uri), None, "{issuer}");
    }
}

#[test]
fn an_option_that_cannot_be_used_is_named_and_signs_nothing() {
    for (options, expected) in [
        (
            TokenOptions {
                signing_key: Some("x".to_owned()),
                ..TokenOptions::default()
            },
            "the option service_account_signing_key cannot be used: the PEM text has no private key",
        ),
        (
            TokenOptions {
                keys: vec![RSA.to_owned(), "x".to_owned()],
                ..TokenOptions::default()
            },
            "the option service_account_keys cannot be used: the PEM text has no key",
        ),
        (
            TokenOptions {
                issuers: vec![String::new()],
                ..TokenOptions::default()
            },
            "the option service_account_issuer cannot be used: a value is empty",
        ),
    ] {
        let shown = format!("{options:?}");
        assert!(!shown.contains("PRIVATE"), "{shown}");
        let issuer = issuer(&options);
        let problem = issuer.problem().unwrap().to_string();
        assert!(problem.starts_with(expected), "{problem}");
        assert_eq!(issuer.issue(&claims()), Err(problem));
        assert_eq!(issuer.metadata(None), None);
    }
}
