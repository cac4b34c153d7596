//! Words: what the views of a store make of one object, and which views these were.

use std::sync::Arc;

/// The values of one object in one index.
pub(crate) type IndexValues = Arc<[Arc<str>]>;

/// What a view makes of one object: its values in each index, or why it is kept aside.
pub(crate) type Finding = Result<Vec<IndexValues>, Arc<str>>;

/// What each view makes of an object, in the order of the views; empty where what is stored stays
/// right.
pub(crate) type Findings = Vec<Finding>;

/// Stands for the views of a store with their indexes: another one where any of them is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outlook(u64);

/// What the views made of an object when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) outlook: Outlook,
    pub(crate) findings: Findings,
}

impl Outlook {
    pub(crate) fn change(&mut self) {
        self.0 += 1;
    }
}
