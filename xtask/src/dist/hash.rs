//! Hashes of files, as the formats of packages write them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Algorithm, digest};
pub(super) use ring::digest::{SHA256, SHA512};

/// Returns a hash of the bytes in hexadecimal digits.
pub(super) fn hex(algorithm: &'static Algorithm, bytes: &[u8]) -> String {
    digest(algorithm, bytes)
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the SHA-256 of the bytes as the file `RECORD` of a wheel has it: base64 for URLs, without padding.
pub(super) fn sha256_record(bytes: &[u8]) -> String {
    let hash = digest(&SHA256, bytes);
    format!("sha256={}", URL_SAFE_NO_PAD.encode(hash))
}

#[cfg(test)]
mod tests {
    use super::{SHA256, SHA512, hex, sha256_record};

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert!(hex(&SHA512, b"abc").starts_with("ddaf35a193617abacc417349ae204131"));
        assert_eq!(hex(&SHA512, b"abc").len(), 128);
        assert!(hex(&SHA256, b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
        assert_eq!(
            sha256_record(b"abc"),
            "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"
        );
    }
}
