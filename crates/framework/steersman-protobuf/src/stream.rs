//! Machine: splits the body of a list into objects, and the body of a watch into events, whatever the chunks are.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::envelope::{MAGIC, type_meta};

/// The maximal length of a value in bytes: many times the size of the largest object in etcd.
pub const MAX_VALUE: usize = 32 << 20;

/// The number of bytes of a value that are allocated before they arrive, so that few values are copied later.
const RESERVED: usize = 64 << 10;

/// The reason why a body is not a protobuf list or watch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The body does not begin with the magic number.
    #[error("it does not begin as an object in protobuf")]
    NoMagic,
    /// A field is invalid, or longer than its message.
    #[error("the field that begins at byte {at} is not one of a list")]
    Field {
        /// The offset of the field in the body.
        at: u64,
    },
    /// A value is longer than [`MAX_VALUE`].
    #[error("a value in it is longer than {} MiB", MAX_VALUE >> 20)]
    TooLong,
    /// The body ends inside a list.
    #[error("it ends after byte {at}, inside a list")]
    Cut {
        /// The number of bytes in the body.
        at: u64,
    },
    /// The body ends inside an event.
    #[error("the answer ends inside an event")]
    CutEvent,
}

/// The body of a list, as far as it has arrived: `runtime.Unknown` around a message with the metadata of the list
/// (field 1) and its items (field 2), which every list of Kubernetes has.
#[derive(Debug, Default)]
pub struct ListItems {
    due: NextFrame,
    /// The bytes of an incomplete value or header from earlier chunks.
    begun: BytesMut,
    /// The number of bytes consumed so far.
    at: u64,
    /// The number of bytes to the end of the list inside the envelope; `None` outside of the list.
    list_rest: Option<u64>,
    saw_list: bool,
    api_version: String,
    kind: String,
    metadata: Option<Bytes>,
}

#[derive(Debug, Clone, Copy, Default)]
enum NextFrame {
    #[default]
    Magic,
    /// The header of a field: its number and type, with its length or value.
    Header,
    /// A value with this number of bytes.
    Value(StreamValue, usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StreamValue {
    TypeMeta,
    ListMeta,
    Item,
    Other,
}

/// The number, wire type and value (or length) of a field, and the length of this header.
struct Header {
    number: u64,
    wire: u64,
    value: u64,
    length: usize,
}

/// The maximal length of a header: two varints.
const LONGEST_HEADER: usize = 20;

impl ListItems {
    /// Makes the parser at the start of a body.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes of the next complete item, and removes the parsed bytes from the chunk. `None` means that the
    /// chunk is used up.
    ///
    /// # Errors
    /// Fails if the bytes are not a list. The parser must not be used after an error.
    pub fn next_item(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, Broken> {
        loop {
            match self.due {
                NextFrame::Magic => {
                    let Some(magic) = self.take(chunk, MAGIC.len()) else {
                        return Ok(None);
                    };
                    if *magic != MAGIC {
                        return Err(Broken::NoMagic);
                    }
                    self.due = NextFrame::Header;
                }
                NextFrame::Header => {
                    let Some(header) = self.header(chunk)? else {
                        return Ok(None);
                    };
                    self.due = self.after(&header)?;
                }
                NextFrame::Value(what, length) => {
                    let Some(value) = self.take(chunk, length) else {
                        return Ok(None);
                    };
                    self.due = NextFrame::Header;
                    match what {
                        StreamValue::Item => return Ok(Some(value)),
                        StreamValue::ListMeta => self.metadata = Some(value),
                        StreamValue::TypeMeta => {
                            let at = self.at;
                            let (api_version, kind) =
                                type_meta(&value).map_err(|_| Broken::Field { at })?;
                            self.api_version = api_version.into_owned();
                            self.kind = kind.into_owned();
                        }
                        StreamValue::Other => {}
                    }
                }
            }
        }
    }

    /// Returns the `apiVersion` and the kind of the list, which precede its items; empty if they have not arrived.
    pub fn list_kind(&self) -> (&str, &str) {
        (&self.api_version, &self.kind)
    }

    /// Returns the `meta.v1.ListMeta` of the list at the end of the body; `None` if the list has none.
    ///
    /// # Errors
    /// Fails if the body ends inside the list.
    pub fn finish(self) -> Result<Option<Bytes>, Broken> {
        let ended = matches!(self.due, NextFrame::Header) && self.begun.is_empty();
        if ended && self.saw_list && self.list_rest.is_none() {
            Ok(self.metadata)
        } else {
            Err(Broken::Cut {
                at: self.at + self.begun.len() as u64,
            })
        }
    }

    /// Decides what to read after the header of a field.
    fn after(&mut self, header: &Header) -> Result<NextFrame, Broken> {
        let broken = Broken::Field {
            at: self.at - header.length as u64,
        };
        let is_in_list = self.list_rest.is_some();
        if let Some(rest) = &mut self.list_rest {
            let content = if header.wire == 2 { header.value } else { 0 };
            let used = content.checked_add(header.length as u64);
            *rest = used
                .and_then(|used| rest.checked_sub(used))
                .ok_or_else(|| broken.clone())?;
            if *rest == 0 {
                self.list_rest = None;
            }
        }
        match (header.wire, header.number) {
            // A varint has its value in the header.
            (0, _) => Ok(NextFrame::Header),
            (2, 2) if !is_in_list => {
                if std::mem::replace(&mut self.saw_list, true) {
                    return Err(broken);
                }
                self.list_rest = Some(header.value).filter(|rest| *rest > 0);
                Ok(NextFrame::Header)
            }
            (2, number) => {
                let length = usize::try_from(header.value).unwrap_or(usize::MAX);
                if length > MAX_VALUE {
                    return Err(Broken::TooLong);
                }
                let value = match (is_in_list, number) {
                    (true, 1) => StreamValue::ListMeta,
                    (true, 2) => StreamValue::Item,
                    (false, 1) => StreamValue::TypeMeta,
                    _ => StreamValue::Other,
                };
                Ok(NextFrame::Value(value, length))
            }
            _ => Err(broken),
        }
    }

    /// Returns the next `length` bytes once they have arrived, without a copy if they are in one chunk.
    fn take(&mut self, chunk: &mut Bytes, length: usize) -> Option<Bytes> {
        if self.begun.is_empty() && chunk.len() >= length {
            self.at += length as u64;
            return Some(chunk.split_to(length));
        }
        fill(&mut self.begun, chunk, length);
        if self.begun.len() < length {
            return None;
        }
        self.at += length as u64;
        Some(self.begun.split_to(length).freeze())
    }

    /// Returns the header of the next field once it has arrived.
    fn header(&mut self, chunk: &mut Bytes) -> Result<Option<Header>, Broken> {
        let begun = self.begun.len();
        let more = chunk.len().min(LONGEST_HEADER - begun.min(LONGEST_HEADER));
        let mut bytes = [0; LONGEST_HEADER];
        bytes[..begun].copy_from_slice(&self.begun);
        bytes[begun..begun + more].copy_from_slice(&chunk[..more]);
        match read_header(&bytes[..begun + more]) {
            Ok(Some(header)) => {
                // The header ends in this chunk: otherwise it would have been returned earlier.
                chunk.advance(header.length.saturating_sub(begun));
                self.begun.clear();
                self.at += header.length as u64;
                Ok(Some(header))
            }
            Ok(None) if begun + more < LONGEST_HEADER => {
                self.begun.extend_from_slice(&chunk.split_to(more));
                Ok(None)
            }
            _ => Err(Broken::Field { at: self.at }),
        }
    }
}

/// Moves bytes of the chunk to `begun`, until that has `length` bytes.
fn fill(begun: &mut BytesMut, chunk: &mut Bytes, length: usize) {
    let missing = length.saturating_sub(begun.len());
    begun.reserve(missing.min(RESERVED));
    let arrived = missing.min(chunk.len());
    begun.extend_from_slice(&chunk.split_to(arrived));
}

/// A varint of more than ten bytes.
struct Overlong;

/// Returns the header at the start of the bytes; `None` if it is incomplete.
fn read_header(bytes: &[u8]) -> Result<Option<Header>, Overlong> {
    let Some((tag, tag_length)) = varint(bytes)? else {
        return Ok(None);
    };
    let value = varint(&bytes[tag_length..])?;
    Ok(value.map(|(value, value_length)| Header {
        number: tag >> 3,
        wire: tag & 7,
        value,
        length: tag_length + value_length,
    }))
}

/// Returns the varint at the start of the bytes, with its length; `None` if it is incomplete.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Overlong> {
    let mut number = 0;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Ok(Some((number, index + 1)));
        }
    }
    if bytes.len() < 10 {
        Ok(None)
    } else {
        Err(Overlong)
    }
}

/// The parser of a watch: frames, each preceded by four bytes with its length.
#[derive(Debug, Default)]
pub struct Frames {
    chunk: Bytes,
    /// The bytes of an incomplete frame from earlier chunks, including its length.
    begun: BytesMut,
}

const LENGTH: usize = 4;

impl Frames {
    /// Adds the next chunk. Must only be called after [`next_frame`](Self::next_frame) has returned `None`.
    pub fn push(&mut self, chunk: Bytes) {
        self.chunk = chunk;
    }

    /// Returns the content of the next complete frame.
    ///
    /// # Errors
    /// Fails if the frame is longer than [`MAX_VALUE`]. The parser must not be used after an error.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, Broken> {
        if self.begun.is_empty()
            && let Some(length) = length(&self.chunk)?
            && self.chunk.len() >= LENGTH + length
        {
            self.chunk.advance(LENGTH);
            return Ok(Some(self.chunk.split_to(length)));
        }
        fill(&mut self.begun, &mut self.chunk, LENGTH);
        let Some(length) = length(&self.begun)? else {
            return Ok(None);
        };
        fill(&mut self.begun, &mut self.chunk, LENGTH + length);
        if self.begun.len() < LENGTH + length {
            return Ok(None);
        }
        self.begun.advance(LENGTH);
        Ok(Some(self.begun.split_to(length).freeze()))
    }

    /// Checks that the body does not end inside a frame.
    ///
    /// # Errors
    /// [`Broken::CutEvent`] if the body ends inside a frame.
    pub fn finish(&self) -> Result<(), Broken> {
        if self.begun.is_empty() && self.chunk.is_empty() {
            Ok(())
        } else {
            Err(Broken::CutEvent)
        }
    }
}

fn length(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    let Some(length) = bytes.first_chunk::<LENGTH>() else {
        return Ok(None);
    };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > MAX_VALUE {
        return Err(Broken::TooLong);
    }
    Ok(Some(length))
}
