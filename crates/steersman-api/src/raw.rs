//! Machine: looks into the bytes of one object before it is decoded.
//!
//! The bytes are JSON that was checked before; on anything else the scan gives up and finds
//! nothing, and never reads out of bounds.

use std::borrow::Cow;
use std::ops::Range;

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

use crate::scan::Scan;

/// What the scan found at the top of an object and in its metadata.
#[derive(Debug, Default)]
struct Shape {
    /// The value of `apiVersion`.
    api_version: Option<Range<usize>>,
    /// The value of `kind`.
    kind: Option<Range<usize>>,
    /// The value of `metadata`, where it is an object.
    metadata: Option<Range<usize>>,
    /// Whether there is nothing about the names of its members, or behind it, that a parser would see
    /// in another way: names with escapes, two of metadata, further values.
    plain: bool,
    /// `"managedFields": […]` of the metadata, with the comma that goes with it.
    managed_fields: Option<Range<usize>>,
}

/// What names an object; empty where it could not be read.
#[derive(Debug, Default)]
struct Identity {
    namespace: String,
    name: String,
    uid: String,
    version: String,
}

/// An object's bytes as they are read.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) json: Cow<'a, [u8]>,
    /// Where its metadata stands in them; `None` where that takes a parser to say.
    pub(crate) metadata: Option<Range<usize>>,
    /// What it says it is, where that is something else than was asked for.
    pub(crate) foreign: Option<String>,
}

impl<'a> Prepared<'a> {
    /// Bytes of which nothing is known.
    pub(crate) fn unread(raw: &'a [u8]) -> Self {
        Self {
            json: Cow::Borrowed(raw),
            metadata: None,
            foreign: None,
        }
    }
}

/// The object's bytes with its `apiVersion` and `kind` (items of a list have none) and, if asked,
/// without its managedFields.
pub(crate) fn prepare<'a>(raw: &'a [u8], gvk: &Gvk, drop_managed_fields: bool) -> Prepared<'a> {
    let as_it_is = |metadata, foreign| Prepared {
        metadata,
        foreign,
        ..Prepared::unread(raw)
    };
    let Some(shape) = scan(raw) else {
        return Prepared::unread(raw);
    };
    let foreign = foreign(raw, &shape, gvk, false);
    let metadata = shape.metadata.filter(|_| shape.plain);
    let cut = shape.managed_fields.filter(|_| drop_managed_fields);
    let typed = shape.api_version.is_some() && shape.kind.is_some();
    let Some(open) = raw.iter().position(|byte| *byte == b'{') else {
        return as_it_is(metadata, foreign);
    };
    if typed && cut.is_none() {
        return as_it_is(metadata, foreign);
    }
    let (head, rest) = raw.split_at(open + 1);
    let mut added = Vec::new();
    if shape.api_version.is_none() {
        push_member(&mut added, "apiVersion", &gvk.api_version());
    }
    if shape.kind.is_none() {
        push_member(&mut added, "kind", gvk.kind());
    }
    // An object without any member of its own has no comma coming after these.
    if !typed && rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}') {
        added.pop();
    }
    let cut = cut.unwrap_or(raw.len()..raw.len());
    let json = [head, &added[..], &raw[open + 1..cut.start], &raw[cut.end..]].concat();
    Prepared {
        json: Cow::Owned(json),
        // What is cut out is part of it.
        metadata: metadata.map(|at| at.start + added.len()..at.end + added.len() - cut.len()),
        foreign,
    }
}

/// What an object says it is, where that is something else than was asked for: a conversion that is
/// under way, or a server that takes the request for another one. Metadata alone comes under names of
/// its own.
fn foreign(raw: &[u8], shape: &Shape, gvk: &Gvk, metadata_only: bool) -> Option<String> {
    // What is no text is for who decodes the object, and what says nothing is what was asked for.
    let said = |at: &Option<Range<usize>>| -> Option<Cow<'_, str>> {
        let text = raw.get(at.clone()?)?;
        let plain = serde_json::from_slice::<&str>(text).map(Cow::Borrowed);
        let said = plain.or_else(|_| serde_json::from_slice::<String>(text).map(Cow::Owned));
        said.ok().filter(|said| !said.is_empty())
    };
    let (api_version, kind) = (said(&shape.api_version), said(&shape.kind));
    let is = |group: &str, version: &str, of: &str| {
        let same_version = api_version.as_deref().is_none_or(|said| {
            let (said_group, said_version) = said.split_once('/').unwrap_or(("", said));
            said_group == group && said_version == version
        });
        same_version && kind.as_deref().is_none_or(|kind| kind == of)
    };
    if is(gvk.group(), gvk.version(), gvk.kind())
        || metadata_only && is("meta.k8s.io", "v1", "PartialObjectMetadata")
    {
        return None;
    }
    let said = [kind.as_deref(), api_version.as_deref()];
    let said: Vec<&str> = said.into_iter().flatten().collect();
    Some(said.join(" of "))
}

/// An object of which only the metadata is kept, with its own `apiVersion` and `kind`: servers send
/// metadata under those of `PartialObjectMetadata`. `None` where it has no metadata to find.
pub(crate) fn metadata_of(
    raw: &[u8],
    gvk: &Gvk,
    drop_managed_fields: bool,
) -> Option<Prepared<'static>> {
    let shape = scan(raw)?;
    let foreign = foreign(raw, &shape, gvk, true);
    let metadata = shape.metadata?;
    let cut = shape.managed_fields.filter(|_| drop_managed_fields);
    let cut = cut.unwrap_or(metadata.end..metadata.end);
    let mut head = vec![b'{'];
    push_member(&mut head, "apiVersion", &gvk.api_version());
    push_member(&mut head, "kind", gvk.kind());
    head.extend_from_slice(b"\"metadata\":");
    let kept = [&raw[metadata.start..cut.start], &raw[cut.end..metadata.end]];
    let json = [&head[..], kept[0], kept[1], b"}"].concat();
    let metadata = head.len()..json.len() - 1;
    Some(Prepared {
        json: Cow::Owned(json),
        metadata: shape.plain.then_some(metadata),
        foreign,
    })
}

/// What can be read of an object's identity when the object itself does not decode.
///
/// The bytes are scanned, and not parsed: what a parser minds elsewhere in them (a number that is
/// too large, a text that is not Unicode, levels without end) hides no name.
pub(crate) fn identity(raw: &[u8]) -> (ObjectKey, String, ResourceVersion) {
    let mut identity = Identity::default();
    let mut cursor = Cursor { raw, at: 0 };
    // Of what is cut off, what came before is right.
    let _ = cursor.members(|cursor, name, _| {
        if name == b"metadata" && cursor.peek() == Some(b'{') {
            return cursor.members(|cursor, name, _| {
                let field = match name {
                    b"namespace" => &mut identity.namespace,
                    b"name" => &mut identity.name,
                    b"uid" => &mut identity.uid,
                    b"resourceVersion" => &mut identity.version,
                    _ => return cursor.skip_value(),
                };
                *field = cursor.text()?;
                Some(())
            });
        }
        cursor.skip_value()
    });
    (
        ObjectKey::namespaced(&identity.namespace, &identity.name),
        identity.uid,
        ResourceVersion::new(identity.version),
    )
}

fn push_member(out: &mut Vec<u8>, name: &str, value: &str) {
    // Groups, versions and kinds are DNS labels and identifiers: nothing to escape.
    out.extend_from_slice(format!("{name:?}:{value:?},").as_bytes());
}

fn scan(raw: &[u8]) -> Option<Shape> {
    let mut shape = Shape {
        plain: true,
        ..Shape::default()
    };
    let mut cursor = Cursor { raw, at: 0 };
    cursor.members(|cursor, name, _| {
        shape.plain &= !name.contains(&b'\\');
        match name {
            b"apiVersion" => {
                shape.api_version = Some(cursor.value()?);
                return Some(());
            }
            b"kind" => {
                shape.kind = Some(cursor.value()?);
                return Some(());
            }
            b"metadata" if cursor.peek() == Some(b'{') => {
                let start = cursor.at;
                shape.plain &= shape.metadata.is_none();
                shape.managed_fields = managed_fields(cursor)?;
                shape.metadata = Some(start..cursor.at);
                return Some(());
            }
            _ => {}
        }
        cursor.skip_value()
    })?;
    shape.plain &= cursor.peek().is_none();
    Some(shape)
}

/// Reads the metadata object at the cursor; finds its managedFields with one comma beside them.
fn managed_fields(cursor: &mut Cursor<'_>) -> Option<Option<Range<usize>>> {
    let mut found: Option<(Range<usize>, bool)> = None;
    let mut members = 0_usize;
    cursor.members(|cursor, name, start| {
        members += 1;
        let first = members == 1;
        cursor.skip_value()?;
        if spells(name, "managedFields") {
            found = Some((start..cursor.at, first));
        }
        Some(())
    })?;
    let raw = cursor.raw;
    Some(found.map(|(span, first)| {
        if first {
            // The comma behind it goes too, if there is one.
            let after = skip_space(raw, span.end);
            let end = if raw.get(after) == Some(&b',') {
                after + 1
            } else {
                span.end
            };
            span.start..end
        } else {
            // The comma before it: between two members there always is one.
            let comma = raw[..span.start].iter().rposition(|b| *b == b',');
            comma.unwrap_or(span.start)..span.end
        }
    }))
}

/// Whether the name of a member, as it stands between its quotes, is this one: it may be written
/// with escapes.
fn spells(name: &[u8], wanted: &str) -> bool {
    if !name.contains(&b'\\') {
        return name == wanted.as_bytes();
    }
    let quoted = [b"\"", name, b"\""].concat();
    serde_json::from_slice::<String>(&quoted).is_ok_and(|name| name == wanted)
}

fn skip_space(raw: &[u8], mut at: usize) -> usize {
    while raw.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

struct Cursor<'a> {
    raw: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&mut self) -> Option<u8> {
        self.at = skip_space(self.raw, self.at);
        self.raw.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Calls `member` with the name and the start of each member of the object at the cursor;
    /// `member` has to consume the value.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a [u8], usize) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            self.peek()?;
            let start = self.at;
            self.skip_string()?;
            let raw: &'a [u8] = self.raw;
            let name = raw.get(start + 1..self.at - 1)?;
            self.expect(b':')?;
            member(self, name, start)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Consumes a value; where it stands.
    fn value(&mut self) -> Option<Range<usize>> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        Some(start..self.at)
    }

    /// Consumes a value; its text, or nothing where it is no text.
    fn text(&mut self) -> Option<String> {
        let at = self.value()?;
        let text = self.raw.get(at)?;
        Some(serde_json::from_slice(text).unwrap_or_default())
    }

    fn skip_string(&mut self) -> Option<()> {
        (self.peek()? == b'"').then(|| self.skip_value())?
    }

    fn skip_value(&mut self) -> Option<()> {
        let mut scan = Scan::begin(self.peek()?)?;
        self.at += scan.go_on(&self.raw[self.at..]).ok()??;
        Some(())
    }
}

#[cfg(test)]
mod tests;
