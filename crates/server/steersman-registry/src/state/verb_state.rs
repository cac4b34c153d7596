//! Words: the webhook answers and the warnings of a verb that is running.

use std::any::Any;
use std::collections::BTreeMap;

use crate::webhook::{CallResponse, WebhookCall};

/// Maximum length of all warnings of a request together, in characters. With more, each is cut to `MOST_OF_ONE`
/// (upstream: `apiserver/pkg/endpoints/filters/warning.go`).
const MOST_OF_ALL: usize = 4 * 1024;
const MOST_OF_ONE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct VerbState {
    /// Whether the caller of the verb can call webhooks; otherwise none is called.
    pub(crate) attended: bool,
    /// The webhook answers so far, by the key of the call. A key is as long as the review, too long to hash.
    pub(crate) answers: BTreeMap<String, CallResponse>,
    /// How often each webhook was called in this request, to stop a request with an object that always changes.
    pub(crate) asked: BTreeMap<String, usize>,
    /// The number of conversions in this run of the verb so far.
    pub(crate) conversions: usize,
    pub(crate) pending: Vec<WebhookCall>,
    /// What the verb keeps for its next run after it stopped for a webhook. Only the verb knows the type.
    pub(crate) waiting: Option<Box<dyn Any + Send + Sync>>,
    /// The revision at which a list goes on that stopped for a webhook.
    pub(crate) pinned: Option<u64>,
    /// The warnings for the client, which it gets even if the request fails.
    pub(crate) warnings: Warnings,
}

/// The texts of `Warning` headers, without duplicates and of limited length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// Whether the body was decoded. Only then warnings about unknown fields are sent.
    decoded: bool,
    /// Whether each text is cut, so that more of them can be sent.
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

    /// Returns and clears the texts; `true` if the body of the request was decoded.
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
