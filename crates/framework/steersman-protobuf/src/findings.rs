//! Words: the parts of an object to decode, and facts found while decoding.

use std::ops::Range;

use crate::table::Message;

/// The maximum depth of nested messages, equal to the limit for JSON.
pub(crate) const DEEPEST: usize = 120;

/// The parts of an object to decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Whether to decode `managedFields`.
    pub managed_fields: bool,
    /// Whether to decode more than `metadata`.
    pub beyond_metadata: bool,
}

impl Keep {
    /// Decode the whole object.
    pub const WHOLE: Self = Self {
        managed_fields: true,
        beyond_metadata: true,
    };
}

/// Facts about a message that its JSON does not show.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The byte range of the metadata in the JSON; `None` if only a JSON parser can find it.
    pub metadata: Option<Range<usize>>,
    /// The fields that the table does not know, such as those of a newer server. They are not in the JSON.
    pub unknown: Unknown,
    /// Whether a value may have another form than its type: embedded JSON may have any, and a required time may be
    /// `null`.
    pub has_untyped: bool,
}

/// The fields of a message that the table does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// The number of unknown fields.
    pub count: u64,
    /// The name of the message and the number of the first unknown field.
    pub first: Option<(&'static str, u32)>,
}

impl Unknown {
    pub(crate) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.or(other.first);
    }

    pub(crate) fn note(&mut self, message: &Message, number: u32) {
        self.count += 1;
        self.first.get_or_insert((message.name(), number));
    }
}
