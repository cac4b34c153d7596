//! Hashes of files, as the formats of packages write them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{Digest, SHA256, SHA512, digest};

/// Returns the SHA-512 of the bytes in hexadecimal digits, as the index of `setup-envtest` has it.
pub(super) fn sha512_hex(bytes: &[u8]) -> String {
    hex(&digest(&SHA512, bytes))
}

/// Returns the SHA-256 of the bytes in hexadecimal digits, as `sha256sum` prints it.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&digest(&SHA256, bytes))
}

fn hex(hash: &Digest) -> String {
    hash.as_ref()
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
    use super::{sha256_hex, sha256_record, sha512_hex};

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert!(sha512_hex(b"abc").starts_with("ddaf35a193617abacc417349ae204131"));
        assert_eq!(sha512_hex(b"abc").len(), 128);
        assert!(sha256_hex(b"abc").starts_with("ba7816bf8f01cfea414140de5dae2223"));
        assert_eq!(
            sha256_record(b"abc"),
            "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"
        );
    }
}
