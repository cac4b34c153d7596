//! Words: `ListBody`, a list that is serialised while it is sent.

use bytes::Bytes;
use steersman_protobuf::envelope::{append_field_head, field_head_length};
use steersman_registry::VersionedObject;

/// Number of bytes at which a piece of a list is sent, so that the list needs no second copy in memory: 64 KiB.
const PIECE: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct ListBody {
    pub(crate) head: Bytes,
    pub(crate) items: ListItems,
    pub(crate) tail: Bytes,
}

/// The items of a list, sent as the bytes in which the objects are stored.
#[derive(Debug)]
pub(crate) enum ListItems {
    /// Objects in JSON. With `with_type` each has `kind` and `apiVersion`, as in lists of custom resources.
    Objects {
        with_type: bool,
        items: std::vec::IntoIter<VersionedObject>,
    },
    /// Encoded protobuf messages. Each is sent as a field, with this number, of the message of the list.
    Messages(u32, std::vec::IntoIter<Bytes>),
}

impl ListBody {
    pub(crate) fn length(&self) -> u64 {
        (self.head.len() + self.items.length() + self.tail.len()) as u64
    }

    /// Returns the next piece of the list as bytes; empty at the end.
    pub(crate) fn next_piece(&mut self) -> Bytes {
        let mut piece = Vec::from(std::mem::take(&mut self.head));
        while piece.len() < PIECE {
            if self.items.append_next(&mut piece).is_none() {
                piece.extend_from_slice(&std::mem::take(&mut self.tail));
                break;
            }
        }
        piece.into()
    }

    pub(crate) fn collect(mut self) -> Bytes {
        let mut all = Vec::new();
        loop {
            let piece = self.next_piece();
            if piece.is_empty() {
                return all.into();
            }
            all.extend_from_slice(&piece);
        }
    }
}

impl ListItems {
    fn length(&self) -> usize {
        match self {
            Self::Objects { with_type, items } => {
                let items = items.as_slice();
                let lengths = items.iter().map(|item| {
                    let (brace, rest) = text(item, *with_type);
                    brace.len() + rest.len()
                });
                lengths.sum::<usize>() + items.len().saturating_sub(1)
            }
            Self::Messages(number, items) => {
                let lengths = items.as_slice().iter().map(Bytes::len);
                lengths
                    .map(|length| field_head_length(*number, length) + length)
                    .sum()
            }
        }
    }

    /// Appends the bytes of the next item to `out`; returns `None` if there is no more item.
    fn append_next(&mut self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::Objects { with_type, items } => {
                let item = items.next()?;
                let (brace, rest) = text(&item, *with_type);
                out.extend_from_slice(brace);
                out.extend_from_slice(&rest);
                if !items.as_slice().is_empty() {
                    out.push(b',');
                }
            }
            Self::Messages(number, items) => {
                let item = items.next()?;
                append_field_head(*number, item.len(), out);
                out.extend_from_slice(&item);
            }
        }
        Some(())
    }
}

/// Returns the JSON of an item as two parts, to be sent one after the other. `with_type` includes `kind` and
/// `apiVersion`. Without them the stored bytes lack the opening brace, which is then the first part.
fn text(object: &VersionedObject, with_type: bool) -> (&'static [u8], Bytes) {
    match with_type {
        true => (b"", object.bytes()),
        false => (b"{", object.bytes_after_type()),
    }
}
