//! Machine: looks into the bytes of one object before it is decoded.
//!
//! The bytes are JSON that was checked before; on anything else the scan gives up and finds
//! nothing, and never reads out of bounds.

use std::ops::Range;

use steersman_object::{Gvk, ObjectKey, ResourceVersion};

/// What the scan found at the top of an object and in its metadata.
#[derive(Debug, Default)]
struct Shape {
    api_version: bool,
    kind: bool,
    /// The value of `metadata`, where it is an object.
    metadata: Option<Range<usize>>,
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

/// The object's bytes with its `apiVersion` and `kind` (items of a list have none) and, if asked,
/// without its managedFields. `None` where the bytes are right as they are.
pub(crate) fn prepare(raw: &[u8], gvk: &Gvk, drop_managed_fields: bool) -> Option<Vec<u8>> {
    let shape = scan(raw)?;
    let cut = shape.managed_fields.filter(|_| drop_managed_fields);
    let typed = shape.api_version && shape.kind;
    if typed && cut.is_none() {
        return None;
    }
    let open = raw.iter().position(|b| *b == b'{')? + 1;
    let mut out = Vec::with_capacity(raw.len() + 96);
    out.extend_from_slice(&raw[..open]);
    if !shape.api_version {
        push_member(&mut out, "apiVersion", &gvk.api_version());
    }
    if !shape.kind {
        push_member(&mut out, "kind", gvk.kind());
    }
    // An object without any member of its own has no comma coming after these.
    if !typed && raw[open..].iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}') {
        out.pop();
    }
    match cut {
        Some(cut) => {
            out.extend_from_slice(&raw[open..cut.start]);
            out.extend_from_slice(&raw[cut.end..]);
        }
        None => out.extend_from_slice(&raw[open..]),
    }
    Some(out)
}

/// An object of which only the metadata is kept, with its own `apiVersion` and `kind`: servers send
/// metadata under those of `PartialObjectMetadata`. `None` where it has no metadata to find.
pub(crate) fn metadata_of(raw: &[u8], gvk: &Gvk, drop_managed_fields: bool) -> Option<Vec<u8>> {
    let shape = scan(raw)?;
    let metadata = shape.metadata?;
    let mut out = Vec::with_capacity(metadata.len() + 96);
    out.push(b'{');
    push_member(&mut out, "apiVersion", &gvk.api_version());
    push_member(&mut out, "kind", gvk.kind());
    out.extend_from_slice(b"\"metadata\":");
    match shape.managed_fields.filter(|_| drop_managed_fields) {
        Some(cut) => {
            out.extend_from_slice(&raw[metadata.start..cut.start]);
            out.extend_from_slice(&raw[cut.end..metadata.end]);
        }
        None => out.extend_from_slice(&raw[metadata]),
    }
    out.push(b'}');
    Some(out)
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
    let mut shape = Shape::default();
    let mut cursor = Cursor { raw, at: 0 };
    cursor.members(|cursor, name, _| {
        match name {
            b"apiVersion" => shape.api_version = true,
            b"kind" => shape.kind = true,
            b"metadata" if cursor.peek() == Some(b'{') => {
                let start = cursor.at;
                shape.managed_fields = managed_fields(cursor)?;
                shape.metadata = Some(start..cursor.at);
                return Some(());
            }
            _ => {}
        }
        cursor.skip_value()
    })?;
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

    /// Consumes a value; its text, or nothing where it is no text.
    fn text(&mut self) -> Option<String> {
        self.peek()?;
        let start = self.at;
        self.skip_value()?;
        let text = self.raw.get(start..self.at)?;
        Some(serde_json::from_slice(text).unwrap_or_default())
    }

    fn skip_string(&mut self) -> Option<()> {
        self.expect(b'"')?;
        loop {
            match self.raw.get(self.at)? {
                b'"' => {
                    self.at += 1;
                    return Some(());
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                while let Some(byte) = self.raw.get(self.at) {
                    if matches!(byte, b',' | b'}' | b']') || byte.is_ascii_whitespace() {
                        break;
                    }
                    self.at += 1;
                }
                Some(())
            }
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.raw.get(self.at)? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
