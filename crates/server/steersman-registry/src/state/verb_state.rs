//! Words: the webhook calls and the warnings of the running verb.

use std::any::Any;
use std::collections::BTreeMap;

use crate::webhook::{CallResponse, WebhookCall};

/// Maximum number of characters of all warnings of a request together; with more, each warning is shortened (upstream:
/// `apiserver/pkg/endpoints/filters/warning.go`).
const MOST_OF_ALL: usize = 4 * 1024;
const MOST_OF_ONE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct VerbState {
    /// Whether the caller of the verb can call webhooks.
    pub(crate) attended: bool,
    /// The known answers of webhooks, by the key of the call. A key is as long as a review, too long to be hashed.
    pub(crate) answers: BTreeMap<String, CallResponse>,
    /// The number of calls of each webhook in this request, by the position of the webhook.
    pub(crate) asked: BTreeMap<String, usize>,
    /// The number of conversions that this run has needed so far.
    pub(crate) conversions: usize,
    pub(crate) pending: Vec<WebhookCall>,
    /// The state from which the next run of the verb continues; only that verb knows the type of the state.
    pub(crate) waiting: Option<Box<dyn Any + Send + Sync>>,
    /// The revision at which a list that stopped for a webhook continues.
    pub(crate) pinned: Option<u64>,
    /// The warnings for the client, whatever the outcome of its request.
    pub(crate) warnings: Warnings,
}

/// Texts for `Warning` headers, without duplicates and limited in length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// Whether the body of the request was decoded, so that its unknown fields are reported.
    decoded: bool,
    /// Whether texts are shortened, so that more texts fit.
    short: bool,
}

impl Warnings {
    pub(crate) fn note(&mut self, text: String) {
        if self.texts.contains(&text) {
            return;
        }
        let length =
            |texts: &[String]| -> usize { texts.iter().map(|text| text.chars().count()).sum() };
        let before = length(&self.texts);
        if self.short && before >= MOST_OF_ALL {
            return;
        }
        self.texts.push(text);
        self.short |= length(&self.texts) > MOST_OF_ALL;
        if self.short {
            for text in &mut self.texts {
                if let Some((end, _)) = text.char_indices().nth(MOST_OF_ONE) {
                    text.truncate(end);
                }
            }
        }
    }

    pub(crate) fn note_unknown(&mut self, fields: Vec<String>) {
        self.decoded = true;
        for text in fields {
            self.note(text);
        }
    }

    /// Returns and clears all texts; `true` if the body of the request was decoded.
    pub(crate) fn take(&mut self) -> (bool, Vec<String>) {
        let all = std::mem::take(self);
        (all.decoded, all.texts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_deduplicated_and_shortened() {
        let mut warnings = Warnings::default();
        for text in ["a", "b", "a"] {
            warnings.note(text.to_owned());
        }
        assert_eq!(
            warnings.take(),
            (false, vec!["a".to_owned(), "b".to_owned()])
        );

        for number in 0..100 {
            warnings.note(format!("{number:03}{}", "é".repeat(1000)));
        }
        let (_, texts) = warnings.take();
        assert_eq!(texts.len(), 16, "of 256 characters each");
        assert!(texts.iter().all(|text| text.chars().count() == MOST_OF_ONE));
        assert!(warnings.take().1.is_empty());
    }
}
