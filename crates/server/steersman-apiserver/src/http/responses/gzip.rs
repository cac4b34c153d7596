//! Machine: compresses answers for clients that accept gzip.

use std::io::Write as _;

use bytes::buf::Writer;
use bytes::{BufMut as _, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;

/// Minimum length in bytes of a compressed answer, as in kube-apiserver.
pub(crate) const THRESHOLD: u64 = 128 * 1024;

/// Returns whether an `Accept-Encoding` header has the word `gzip` without a quality value, as in kube-apiserver.
pub(crate) fn is_accepted(header: Option<&str>) -> bool {
    let header = header.unwrap_or_default();
    header.split(',').any(|word| word.trim() == "gzip")
}

pub(crate) struct Gzip(GzEncoder<Writer<BytesMut>>);

impl Gzip {
    pub(crate) fn new() -> Self {
        Self(GzEncoder::new(
            BytesMut::new().writer(),
            Compression::fast(),
        ))
    }

    /// Compresses the next piece of the answer. Returns the compressed bytes that are ready, often none.
    pub(crate) fn push(&mut self, piece: &[u8]) -> Bytes {
        // Writing into memory cannot fail.
        let _ = self.0.write_all(piece);
        self.0.get_mut().get_mut().split().freeze()
    }

    pub(crate) fn finish(self) -> Bytes {
        let finished = self.0.finish().map(Writer::into_inner);
        finished.unwrap_or_default().freeze()
    }
}

/// Compresses a piece as a gzip member of its own, so that clients can decompress it at once.
pub(crate) fn member(piece: &[u8]) -> Bytes {
    let mut gzip = Gzip::new();
    let head = gzip.push(piece);
    let rest = gzip.finish();
    [head, rest].concat().into()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn only_gzip_without_parameters_is_accepted() {
        for (header, taken) in [
            (None, false),
            (Some("gzip"), true),
            (Some("deflate, gzip, br"), true),
            (Some("gzip;q=1"), false),
            (Some("identity"), false),
            (Some("*"), false),
        ] {
            assert_eq!(is_accepted(header), taken, "{header:?}");
        }
    }

    #[test]
    fn compressed_pieces_and_members_decompress_to_the_original() {
        let mut gzip = Gzip::new();
        let mut written = Vec::new();
        for piece in ["a piece, ", "", "and another"] {
            written.extend_from_slice(&gzip.push(piece.as_bytes()));
        }
        written.extend_from_slice(&gzip.finish());
        written.extend_from_slice(&member(b"; a member"));
        let mut read = String::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(&written[..]);
        decoder.read_to_string(&mut read).unwrap();
        assert_eq!(read, "a piece, and another; a member");
    }
}
