//! Words: which parts of an object are decoded, and what is found besides.

use std::ops::Range;

use crate::table::Message;

/// The maximum depth of nested messages, equal to the limit for JSON.
pub(crate) const DEEPEST: usize = 120;

/// The parts of an object that its JSON has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// Whether the metadata has `managedFields`.
    pub managed_fields: bool,
    /// Whether there is more than `metadata`.
    pub beyond_metadata: bool,
}

impl Keep {
    /// The whole object.
    pub const WHOLE: Self = Self {
        managed_fields: true,
        beyond_metadata: true,
    };
}

/// What was found in a message besides its JSON.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Findings {
    /// The range of the metadata in the JSON; `None` if only a parser can find it.
    pub metadata: Option<Range<usize>>,
    /// The fields that the table does not know, which a newer server sends. The JSON lacks them.
    pub unknown: Unknown,
    /// Whether a value may have another form than its field: embedded JSON has any, and a required time may be
    /// `null`.
    pub has_untyped: bool,
}

/// The fields of a message that the table does not know.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Unknown {
    /// The number of such fields.
    pub count: u64,
    /// The message and the number of the first one.
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
