//! Machine: cuts the body of a watch into lines, whatever the boundaries of its chunks.

use bytes::{Buf as _, Bytes, BytesMut};
use memchr::memchr;

/// The longest accepted line, in bytes: many times the largest object that etcd stores.
pub(crate) const MAX_LINE: usize = 32 << 20;

/// The bytes of a body that no returned line contains.
#[derive(Debug)]
pub(crate) struct Lines {
    /// The rest of the last chunk. A line inside one chunk is not copied.
    chunk: Bytes,
    /// The bytes of an incomplete line from earlier chunks.
    begun: BytesMut,
    max: usize,
}

/// The error of a line that is longer than the bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong {
    pub(crate) max: usize,
}

impl Lines {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            chunk: Bytes::new(),
            begun: BytesMut::new(),
            max,
        }
    }

    /// Takes the next chunk. Call it when `next_line` has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the next complete line, without its line end; `None` if the chunk is used up.
    pub(crate) fn next_line(&mut self) -> Result<Option<Bytes>, TooLong> {
        let end = memchr(b'\n', &self.chunk);
        let part = self.chunk.split_to(end.unwrap_or(self.chunk.len()));
        if self.begun.len() + part.len() > self.max {
            return Err(TooLong { max: self.max });
        }
        if end.is_none() {
            self.begun.extend_from_slice(&part);
            return Ok(None);
        }
        self.chunk.advance(1);
        if self.begun.is_empty() {
            return Ok(Some(part));
        }
        self.begun.extend_from_slice(&part);
        Ok(Some(self.begun.split().freeze()))
    }

    /// Returns the last bytes of the body, after the last line end.
    pub(crate) fn rest(&mut self) -> Bytes {
        self.begun.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(1000);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(Bytes::copy_from_slice(chunk));
            while let Some(line) = lines.next_line().unwrap() {
                out.push(line.to_vec());
            }
        }
        out.push(lines.rest().to_vec());
        out
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(body in "[ab\n]{0,60}", cuts in prop::collection::vec(0..60_usize, 0..6)) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut start = 0;
            for at in cuts {
                chunks.push(&bytes[start..at]);
                start = at;
            }
            chunks.push(&bytes[start..]);
            let expected: Vec<Vec<u8>> = body.split('\n').map(|l| l.as_bytes().to_vec()).collect();
            prop_assert_eq!(cut(&chunks), expected);
        }
    }

    #[test]
    fn a_line_past_the_bound_is_an_error_before_its_end_arrives() {
        let mut lines = Lines::new(4);
        lines.push(Bytes::from_static(b"1234"));
        assert_eq!(lines.next_line(), Ok(None));
        lines.push(Bytes::from_static(b"5"));
        assert_eq!(lines.next_line(), Err(TooLong { max: 4 }));
    }
}
