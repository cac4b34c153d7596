//! Machine: inspects the bytes of one object before it is decoded.
//!
//! The caller has checked that the bytes are JSON. In other bytes the scan finds nothing, and never reads out of
//! bounds.

use std::borrow::Cow;
use std::ops::Range;

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

use super::scan::Scan;
use crate::apply_digest::ApplyDigest;
use crate::head::Conformity;

/// The positions that a scan has found in an object and its metadata.
#[derive(Debug, Default)]
struct ObjectShape {
    /// The position of the value of `apiVersion`.
    api_version: Option<Range<usize>>,
    /// The position of the value of `kind`.
    kind: Option<Range<usize>>,
    /// The position of the value of `metadata`, if it is an object.
    metadata: Option<Range<usize>>,
    /// Whether a JSON parser would find the same members: not if a member name has escapes, `metadata` occurs twice, or
    /// other values follow the object.
    plain: bool,
    /// The range of `"managedFields": […]` in the metadata, with one adjacent comma.
    managed_fields: Option<Range<usize>>,
}

/// The identity of an object. A field that could not be read is empty.
#[derive(Debug, Default)]
struct ObjectIdentity {
    namespace: String,
    name: String,
    uid: String,
    version: String,
}

#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    pub(crate) json: Cow<'a, [u8]>,
    /// The position of the metadata; `None` if only a parser can find it.
    pub(crate) metadata: Option<Range<usize>>,
    /// The kind that the object names; `None` if it is the requested kind.
    pub(crate) foreign: Option<String>,
    pub(crate) conformity: Conformity,
    /// The applies that left the object in this state.
    pub(crate) applies: Box<[ApplyDigest]>,
}

impl<'a> Prepared<'a> {
    pub(crate) fn unread(raw: &'a [u8]) -> Self {
        Self {
            json: Cow::Borrowed(raw),
            metadata: None,
            foreign: None,
            conformity: Conformity::Unchecked,
            applies: Box::default(),
        }
    }
}

/// Prepares an object: adds `apiVersion` and `kind`, which the items of a list lack, and removes its managedFields if
/// `drop_managed_fields` is set.
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
    // An object without members needs no comma after the added members.
    if !typed && rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}') {
        added.pop();
    }
    let cut = cut.unwrap_or(raw.len()..raw.len());
    let json = [head, &added[..], &raw[open + 1..cut.start], &raw[cut.end..]].concat();
    Prepared {
        json: Cow::Owned(json),
        // The removed range is inside the metadata.
        metadata: metadata.map(|at| at.start + added.len()..at.end + added.len() - cut.len()),
        ..as_it_is(None, foreign)
    }
}

/// Returns the kind that an object names; `None` if it is the requested kind. The kinds differ while a conversion is
/// under way, or if the server misread the request. Metadata alone has its own kinds.
fn foreign(raw: &[u8], shape: &ObjectShape, gvk: &Gvk, metadata_only: bool) -> Option<String> {
    // A value that is no string fails later, when the object is decoded. An object without a kind counts as one of the
    // requested kind.
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

/// Keeps only the metadata of an object, with the requested `apiVersion` and `kind`, because servers send metadata with
/// those of `PartialObjectMetadata`. `None` if the object has no metadata.
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
        ..Prepared::unread(b"")
    })
}

/// Returns the readable part of the identity of an object that does not decode.
///
/// The bytes are scanned and not parsed, so that the name is found despite a problem elsewhere (a number out of range,
/// invalid UTF-8, too many levels).
pub(crate) fn identity(raw: &[u8]) -> (ObjectKey, String, ResourceVersion) {
    let mut identity = ObjectIdentity::default();
    let mut cursor = Cursor { raw, at: 0 };
    // If the bytes end early, the members that were found before are valid.
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
    // Groups, versions and kinds are DNS labels and identifiers, so they need no escaping.
    out.extend_from_slice(format!("{name:?}:{value:?},").as_bytes());
}

fn scan(raw: &[u8]) -> Option<ObjectShape> {
    let mut shape = ObjectShape {
        plain: true,
        ..ObjectShape::default()
    };
    let mut cursor = Cursor { raw, at: 0 };
    cursor.members(|cursor, name, _| {
        shape.plain &= !name.contains(&b'\\');
        match name {
            b"apiVersion" => shape.api_version = Some(cursor.value()?),
            b"kind" => shape.kind = Some(cursor.value()?),
            b"metadata" if cursor.peek() == Some(b'{') => {
                let start = cursor.at;
                shape.plain &= shape.metadata.is_none();
                shape.managed_fields = managed_fields(cursor)?;
                shape.metadata = Some(start..cursor.at);
            }
            _ => cursor.skip_value()?,
        }
        Some(())
    })?;
    shape.plain &= cursor.peek().is_none();
    Some(shape)
}

/// Reads the metadata object at the cursor. Returns the range of its managedFields with one adjacent comma.
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
            // Includes the comma after the managedFields, if there is one.
            let after = skip_space(raw, span.end);
            let end = match raw.get(after) {
                Some(b',') => after + 1,
                _ => span.end,
            };
            span.start..end
        } else {
            // Otherwise includes the comma before the managedFields.
            let comma = raw[..span.start].iter().rposition(|b| *b == b',');
            comma.unwrap_or(span.start)..span.end
        }
    }))
}

/// Returns whether the bytes between the quotes of a member name, which may contain escapes, spell `wanted`.
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

    /// Calls `member` with the name and the start of each member of the object at the cursor. `member` must consume
    /// the value.
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

    fn value(&mut self) -> Option<Range<usize>> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        Some(start..self.at)
    }

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
