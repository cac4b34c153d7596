//! Tests of keys for the tokens of ServiceAccounts: every form of PEM that contains a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;

use super::*;

/// Returns the content of a file with a key that was made only for these tests.
macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("../../testdata/keys/", $name, ".pem"))
    };
}

/// The ids of the keys of the tests, as OpenSSL computes them: the SHA-256 of the public key's DER.
const RSA_ID: &str = "JxMeZgWv0XIK0Nj9Q3p7A4ka4pl9tyVvHvcJL3HQlf0";
const EC_ID: &str = "hr-zMnhiUGUOoVWiIOA9j2wD3PV4p0_Q7jDcLcHY5bQ";

#[test]
fn each_form_of_a_private_key_signs_what_its_public_half_verifies() {
    let rsa = pem!("rsa-public");
    let ec = pem!("ec-public");
    for (private, public, algorithm, id) in [
        (pem!("rsa-pkcs8"), rsa, "RS256", RSA_ID),
        (pem!("rsa-pkcs1"), rsa, "RS256", RSA_ID),
        (pem!("ec-pkcs8"), ec, "ES256", EC_ID),
        (pem!("ec-sec1"), ec, "ES256", EC_ID),
    ] {
        let key = signing_key(private).unwrap();
        assert_eq!(key.public().id(), id);
        assert_eq!(key.public().algorithm().name(), algorithm);
        let token = key.issue(&json!({"sub": "a"})).unwrap();
        let (text, signature) = token.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let public = verifying_keys(public).unwrap();
        assert!(public[0].verifies(text, &signature));
        assert!(!public[0].verifies(&format!("{text}x"), &signature));
        let header = URL_SAFE_NO_PAD.decode(text.split('.').next().unwrap());
        let header: serde_json::Value = serde_json::from_slice(&header.unwrap()).unwrap();
        assert_eq!(header, json!({"alg": algorithm, "kid": id}));
    }
}

#[test]
fn public_keys_certificates_and_private_keys_of_one_text_are_all_read() {
    let all = [
        pem!("rsa-public"),
        pem!("rsa-certificate"),
        pem!("rsa-pkcs1"),
        pem!("rsa-pkcs8"),
        pem!("ec-public"),
        pem!("ec-certificate"),
        pem!("ec-sec1"),
        pem!("ec-pkcs8"),
    ];
    let keys = verifying_keys(&all.join("some text\n")).unwrap();
    let ids: Vec<&str> = keys.iter().map(VerifyingKey::id).collect();
    assert_eq!(ids, [[RSA_ID; 4], [EC_ID; 4]].concat());
}

#[test]
fn an_rsa_key_and_an_ec_key_have_the_members_of_rfc_7518() {
    let rsa = verifying_keys(pem!("rsa-public")).unwrap()[0].to_json();
    assert_eq!((&rsa["kty"], &rsa["e"]), (&json!("RSA"), &json!("AQAB")));
    assert_eq!((&rsa["use"], &rsa["alg"]), (&json!("sig"), &json!("RS256")));
    assert_eq!(rsa["kid"], RSA_ID);
    // The modulus has 2048 bits, without the leading zero that DER adds.
    assert_eq!(
        URL_SAFE_NO_PAD
            .decode(rsa["n"].as_str().unwrap())
            .unwrap()
            .len(),
        256
    );
    let ec = verifying_keys(pem!("ec-public")).unwrap()[0].to_json();
    assert_eq!((&ec["kty"], &ec["crv"]), (&json!("EC"), &json!("P-256")));
    for half in ["x", "y"] {
        let half = URL_SAFE_NO_PAD.decode(ec[half].as_str().unwrap()).unwrap();
        assert_eq!(half.len(), 32);
    }
}

#[test]
fn a_text_without_a_usable_key_is_refused_with_the_reason() {
    let signing = |pem: &str| signing_key(pem).err().unwrap();
    let verifying = |pem: &str| verifying_keys(pem).err().unwrap();
    for (why, expected) in [
        (signing(""), "has no private key"),
        (signing("nonsense"), "has no private key"),
        (signing(pem!("rsa-public")), "has no private key"),
        (signing(pem!("rsa-1024")), "TooSmall"),
        (signing(pem!("ec-p384")), "EC keys on P-256"),
        (signing(pem!("ed25519")), "EC keys on P-256"),
        (signing(pem!("ec-without-public")), "with their public half"),
        (verifying(""), "has no key"),
        (
            verifying(pem!("rsa-1024")),
            "section 0 (from 0): the RSA key",
        ),
        (verifying(pem!("ec-p384")), "EC keys on P-256"),
    ] {
        assert!(why.contains(expected), "{why}");
    }
    let broken = pem!("rsa-pkcs8").replace("-----END", "");
    assert_eq!(signing(&broken), "the text is malformed PEM");
    assert_eq!(verifying(&broken), "the text is malformed PEM");
    for (label, expected) in [
        ("PUBLIC KEY", "the public key is malformed"),
        ("CERTIFICATE", "the certificate is malformed"),
        ("PRIVATE KEY", "the key is refused"),
        ("RSA PRIVATE KEY", "the RSA key is refused"),
        ("EC PRIVATE KEY", "the key is refused"),
    ] {
        let text = format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        let why = verifying(&text);
        assert!(why.contains(expected), "{label}: {why}");
    }
}
