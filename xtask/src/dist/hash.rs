//! Hashes of files, as the formats of packages write them.

use ring::digest::{SHA256, SHA512, digest};

/// Returns the SHA-512 of the bytes in hexadecimal digits, as the index of `setup-envtest` has it.
pub(super) fn sha512_hex(bytes: &[u8]) -> String {
    let hash = digest(&SHA512, bytes);
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Returns the SHA-256 of the bytes as the file `RECORD` of a wheel has it: base64 for URLs, without padding.
pub(super) fn sha256_record(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let hash = digest(&SHA256, bytes);
    let mut text = "sha256=".to_owned();
    for part in hash.as_ref().chunks(3) {
        let [first, second, third] = [0, 1, 2].map(|at| part.get(at).copied().unwrap_or_default());
        let bits = u32::from_be_bytes([0, first, second, third]);
        let digits = [18, 12, 6, 0].map(|shift| char::from(DIGITS[(bits >> shift & 63) as usize]));
        // Each byte needs another digit, and one digit is needed for the rest.
        text.extend(&digits[..=part.len()]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{sha256_record, sha512_hex};

    #[test]
    fn hashes_are_those_of_the_standard() {
        assert!(sha512_hex(b"abc").starts_with("ddaf35a193617abacc417349ae204131"));
        assert_eq!(sha512_hex(b"abc").len(), 128);
        assert_eq!(
            sha256_record(b"abc"),
            "sha256=ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0"
        );
    }
}
