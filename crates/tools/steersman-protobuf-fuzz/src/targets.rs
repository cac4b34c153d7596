//! Driver: gives the bytes of an input to the checks of a target.

use steersman_protobuf::Message;

use crate::{decoding, encoding};

/// A fuzz target: decides what the bytes of an input are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Two bytes that select the kind, and the message of an object.
    Objects,
    /// A byte for the length of the chunks, and the body of a list.
    Lists,
    /// A byte for the length of the chunks, and the body of a watch.
    Watches,
    /// Two bytes that select the kind, and an object in JSON.
    Texts,
}

impl Target {
    /// Every target.
    pub const ALL: [Self; 4] = [Self::Objects, Self::Lists, Self::Watches, Self::Texts];

    /// Returns the name of the target and of its folder in the corpus.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Lists => "lists",
            Self::Watches => "watches",
            Self::Texts => "texts",
        }
    }

    /// Returns the target of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Runs the checks on an input.
    ///
    /// # Panics
    /// On a finding: bytes with two meanings, or a result that is not JSON.
    pub fn run(self, input: &[u8]) {
        match (self, input) {
            (Self::Objects, [high, low, raw @ ..]) => {
                decoding::object(message([*high, *low]), raw);
            }
            (Self::Texts, [high, low, text @ ..]) => {
                encoding::text(message([*high, *low]), text);
            }
            (Self::Lists, [length, body @ ..]) => decoding::list(body, usize::from(*length)),
            (Self::Watches, [length, body @ ..]) => decoding::watch(body, usize::from(*length)),
            _ => {}
        }
    }
}

/// Returns the message of the kind that two bytes select.
fn message(choice: [u8; 2]) -> &'static Message {
    let kinds = || Message::kinds().map(|(_, message)| message);
    let choice = usize::from(u16::from_be_bytes(choice)) % kinds().count();
    let chosen = kinds().nth(choice);
    // The choice is below the number of kinds.
    chosen.unwrap_or_else(|| unreachable!("there is no kind {choice}"))
}
