//! Words: the webhook responses and the warnings of a verb that is running.

use std::any::Any;
use std::collections::BTreeMap;

use crate::webhook::{CallResponse, WebhookCall};

/// Maximum total length of the warnings of a request, in characters. If it is exceeded, each warning is cut to
/// `MOST_OF_ONE` characters (upstream: `apiserver/pkg/endpoints/filters/warning.go`).
const MOST_OF_ALL: usize = 4 * 1024;
const MOST_OF_ONE: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct VerbState {
    /// Whether the caller of the verb can call webhooks; otherwise the verb ignores webhooks.
    pub(crate) attended: bool,
    /// The webhook responses so far, by the key of the call. A key contains the whole review, so it is not hashed.
    pub(crate) answers: BTreeMap<String, CallResponse>,
    /// The number of calls of each webhook in this request, limited by `MOST_CHANGES` if the object keeps changing.
    pub(crate) asked: BTreeMap<String, usize>,
    /// The number of webhook conversions that this run of the verb has needed so far, to identify the next conversion.
    pub(crate) conversions: usize,
    pub(crate) pending: Vec<WebhookCall>,
    /// The intermediate result of a verb that stops for a webhook, for its next run. Its type is private to the verb.
    pub(crate) waiting: Option<Box<dyn Any + Send + Sync>>,
    /// The revision of a list that stopped for a webhook: the next run of the verb lists at the same revision.
    pub(crate) pinned: Option<u64>,
    /// The warnings for the client, which the response has even if the request fails.
    pub(crate) warnings: Warnings,
}

/// The texts of the `Warning` headers of one response, without duplicates and of limited total length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Warnings {
    texts: Vec<String>,
    /// Whether the body of the request was decoded, and its unknown fields are among the warnings.
    decoded: bool,
    /// Whether the texts are cut to `MOST_OF_ONE` characters, because together they are longer than `MOST_OF_ALL`.
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

    /// Returns and clears the warnings. `true`: the body was decoded, and the warnings contain its unknown fields.
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
