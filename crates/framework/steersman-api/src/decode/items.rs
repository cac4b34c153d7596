//! Machine: cuts the body of a list into its objects, whatever the boundaries of its chunks.
//!
//! The end of an object is found by its brackets and strings alone, and the object is returned as soon as its last byte
//! arrives. Invalid JSON inside of an object shows when the object is decoded, and makes only that object malformed.
//! The bytes around the objects are checked completely.

use bytes::{Buf as _, Bytes, BytesMut};
use serde::de::IgnoredAny;

use super::scan::{MAX_DEPTH, Scan, TooDeep};

/// The longest accepted value, in bytes: many times the largest object that etcd stores.
pub(crate) const MAX_VALUE: usize = 32 << 20;
/// The body of a list, as far as it has arrived.
#[derive(Debug, Default)]
pub(crate) struct Items {
    due: NextToken,
    open: Option<OpenValue>,
    begun: BytesMut,
    metadata: Option<Bytes>,
    has_items: bool,
    /// The number of bytes consumed so far.
    at: u64,
    max: usize,
}

/// The reason why a body is not a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoList {
    #[error("at byte {at}, {expected} was expected")]
    Unexpected { at: u64, expected: &'static str },
    #[error("a value that ends before byte {at} is no JSON")]
    NotJson { at: u64 },
    #[error("its items are no array")]
    NoArray,
    #[error("it has no items")]
    NoItems,
    #[error("it has {0} twice")]
    Twice(&'static str),
    #[error("a value in it is longer than {} MiB", max >> 20)]
    TooLong { max: usize },
    #[error("a value in it has more than {MAX_DEPTH} levels")]
    TooDeep,
    #[error("it is empty")]
    Empty,
    /// The body ended inside the list.
    #[error("the answer ends inside the list")]
    Cut,
}

/// The next token that may follow, between two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum NextToken {
    #[default]
    List,
    FirstName,
    Name,
    Colon(ListMember),
    Value(ListMember),
    MemberEnd,
    FirstItem,
    Item,
    ItemEnd,
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMember {
    Metadata,
    Items,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Name,
    Value(ListMember),
    Item,
}

#[derive(Debug)]
struct OpenValue {
    role: Role,
    scan: Scan,
}

impl Items {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    /// Returns the next object of the list; `None` if the chunk is used up.
    ///
    /// After an error, further results are meaningless.
    pub(crate) fn next_item(&mut self, chunk: &mut Bytes) -> Result<Option<Bytes>, NoList> {
        loop {
            let Some(open) = &mut self.open else {
                match self.step(chunk)? {
                    true => continue,
                    false => return Ok(None),
                }
            };
            let end = open.scan.go_on(chunk);
            let end = end.map_err(|TooDeep| NoList::TooDeep)?;
            let role = open.role;
            let length = end.unwrap_or(chunk.len());
            // LIST-1: at most one object is buffered.
            if self.begun.len() + length > self.max {
                return Err(NoList::TooLong { max: self.max });
            }
            self.at += length as u64;
            let part = chunk.split_to(length);
            if end.is_none() {
                self.begun.extend_from_slice(&part);
                return Ok(None);
            }
            self.open = None;
            let value = if self.begun.is_empty() {
                part
            } else {
                self.begun.extend_from_slice(&part);
                self.begun.split().freeze()
            };
            if let Some(item) = self.take(role, value)? {
                return Ok(Some(item));
            }
        }
    }

    /// Checks that the list is complete. Returns its metadata, if it has any.
    pub(crate) fn finish(self) -> Result<Option<Bytes>, NoList> {
        match self.due {
            NextToken::Nothing if self.has_items => Ok(self.metadata),
            NextToken::Nothing => Err(NoList::NoItems),
            NextToken::List => Err(NoList::Empty),
            _ => Err(NoList::Cut),
        }
    }

    /// Consumes the bytes before the next value. Returns whether the value begins.
    fn step(&mut self, chunk: &mut Bytes) -> Result<bool, NoList> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let space = chunk.iter().take_while(|byte| is_space(byte)).count();
        self.use_up(chunk, space);
        let Some(&byte) = chunk.first() else {
            return Ok(false);
        };
        self.due = match (self.due, byte) {
            (NextToken::List, b'{') => NextToken::FirstName,
            (NextToken::FirstName | NextToken::Name, b'"') => return self.begin(byte, Role::Name),
            (NextToken::Colon(member), b':') => NextToken::Value(member),
            (NextToken::Value(ListMember::Items), b'[') => NextToken::FirstItem,
            (NextToken::Value(member), _) => return self.begin(byte, Role::Value(member)),
            (NextToken::MemberEnd, b',') => NextToken::Name,
            (NextToken::MemberEnd | NextToken::FirstName, b'}') => NextToken::Nothing,
            (NextToken::FirstItem | NextToken::ItemEnd, b']') => NextToken::MemberEnd,
            (NextToken::FirstItem | NextToken::Item, _) => return self.begin(byte, Role::Item),
            (NextToken::ItemEnd, b',') => NextToken::Item,
            _ => return Err(self.unexpected()),
        };
        self.use_up(chunk, 1);
        Ok(true)
    }

    fn begin(&mut self, byte: u8, role: Role) -> Result<bool, NoList> {
        let scan = Scan::begin(byte).ok_or_else(|| self.unexpected())?;
        self.open = Some(OpenValue { role, scan });
        Ok(true)
    }

    /// Handles a complete value; returns it if it is an object of the list.
    fn take(&mut self, role: Role, value: Bytes) -> Result<Option<Bytes>, NoList> {
        let not_json = NoList::NotJson { at: self.at };
        self.due = match role {
            Role::Item => {
                self.due = NextToken::ItemEnd;
                return Ok(Some(value));
            }
            Role::Name => {
                // Parsed as JSON, because a member name may contain escapes.
                let name: String = serde_json::from_slice(&value).map_err(|_| not_json)?;
                NextToken::Colon(self.member(&name)?)
            }
            Role::Value(ListMember::Metadata) => {
                self.metadata = Some(value);
                NextToken::MemberEnd
            }
            // `null` is an empty list, because Go writes a nil slice so.
            Role::Value(ListMember::Items) if *value == *b"null" => NextToken::MemberEnd,
            Role::Value(ListMember::Items) => return Err(NoList::NoArray),
            Role::Value(ListMember::Other) => {
                serde_json::from_slice::<IgnoredAny>(&value).map_err(|_| not_json)?;
                NextToken::MemberEnd
            }
        };
        Ok(None)
    }

    fn member(&mut self, name: &str) -> Result<ListMember, NoList> {
        match name {
            "metadata" if self.metadata.is_some() => Err(NoList::Twice("metadata")),
            "items" if self.has_items => Err(NoList::Twice("items")),
            "metadata" => Ok(ListMember::Metadata),
            "items" => {
                self.has_items = true;
                Ok(ListMember::Items)
            }
            _ => Ok(ListMember::Other),
        }
    }

    fn use_up(&mut self, chunk: &mut Bytes, length: usize) {
        chunk.advance(length);
        self.at += length as u64;
    }

    fn unexpected(&self) -> NoList {
        let expected = match self.due {
            NextToken::List => "an object",
            NextToken::FirstName => "a name or the end of the object",
            NextToken::Name => "a name",
            NextToken::Colon(_) => "a colon",
            NextToken::Value(_) | NextToken::Item => "a value",
            NextToken::MemberEnd => "a comma or the end of the object",
            NextToken::FirstItem => "a value or the end of the items",
            NextToken::ItemEnd => "a comma or the end of the items",
            NextToken::Nothing => "the end",
        };
        let at = self.at;
        NoList::Unexpected { at, expected }
    }
}

#[cfg(test)]
mod tests;
