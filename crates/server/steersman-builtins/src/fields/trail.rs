//! Words: `Trail`, the path of a value in messages.

use std::rc::Rc;

/// The segments of a path. Its text is built on request: most values need none.
#[derive(Debug, Clone)]
pub(super) struct Trail<'a> {
    /// The beginning of the path, if the path was given as text or has more than `ROOM` segments.
    base: Option<Rc<str>>,
    /// The length, in bytes, of the beginning that was given as text.
    given: usize,
    segments: [Segment<'a>; ROOM],
    len: usize,
}

/// The segment of a path that leads from a value to a value inside it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Segment<'a> {
    /// `.name`
    Name(&'a str),
    /// `[key]`
    Key(&'a str),
    /// `[0]`
    Index(usize),
}

/// The number of segments that a trail stores. Nearly every field has a shorter path.
const ROOM: usize = 14;

impl<'a> Trail<'a> {
    pub(super) fn from(base: &str) -> Self {
        Self {
            base: (!base.is_empty()).then(|| base.into()),
            given: base.len(),
            segments: [Segment::Index(0); ROOM],
            len: 0,
        }
    }

    pub(super) fn then(&self, segment: Segment<'a>) -> Self {
        let mut longer = if self.len == ROOM {
            Self {
                given: self.given,
                ..Self::from(&self.text())
            }
        } else {
            self.clone()
        };
        longer.segments[longer.len] = segment;
        longer.len += 1;
        longer
    }

    pub(super) fn text(&self) -> String {
        let mut text = self.base.as_deref().unwrap_or_default().to_owned();
        for segment in &self.segments[..self.len] {
            match segment {
                Segment::Name(name) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.push_str(name);
                }
                Segment::Key(key) => text.extend(["[", key, "]"]),
                Segment::Index(index) => text.extend(["[", &index.to_string(), "]"]),
            }
        }
        text
    }

    /// Returns whether the text is empty: that of the root, or of a member of the root with an empty name.
    pub(super) fn is_empty(&self) -> bool {
        let has_no_text = |segment: &Segment<'_>| matches!(segment, Segment::Name(""));
        self.base.is_none() && self.segments[..self.len].iter().all(has_no_text)
    }

    /// Returns the text without the beginning that was given as text.
    pub(super) fn inner_text(&self) -> String {
        let text = self.text();
        let inner = &text[self.given..];
        let bare = inner.strip_prefix('.').filter(|_| self.given > 0);
        bare.unwrap_or(inner).to_owned()
    }
}
