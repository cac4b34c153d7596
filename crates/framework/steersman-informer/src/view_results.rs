//! Words: the results of decoding one object for each view of a store, and the version of those views.

use std::sync::Arc;

pub(crate) type IndexValues = Arc<[Arc<str>]>;

/// The index values of an object in each index of one view, or the error of decoding it as the view's type.
pub(crate) type ViewResult = Result<Vec<IndexValues>, Arc<str>>;

/// The results of all views for one object, in the order of the views. The usual case, `Plain`, allocates nothing,
/// because a list has one such value per object.
#[derive(Clone, Debug, Default)]
pub(crate) enum ViewResults {
    /// No view decoded the object: its stored version did not change, or it is malformed for every type.
    #[default]
    Unasked,
    /// Every view decodes the object, and none has an index.
    Plain,
    Each(Box<[ViewResult]>),
}

/// A number that changes with the views and indexes of a store, to recognise the results of an earlier set (VIEW-6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewsVersion(u64);

/// The view results of an arrived object, and the version of the views that decoded it.
#[derive(Clone, Debug)]
pub(crate) struct DecodeReport {
    pub(crate) version: ViewsVersion,
    pub(crate) results: ViewResults,
}

/// The result of a view that decodes the object and has no index, so that the object has no index values.
static PLAIN: ViewResult = Ok(Vec::new());

impl ViewResults {
    pub(crate) fn get(&self, number: usize) -> Option<&ViewResult> {
        match self {
            Self::Unasked => None,
            Self::Plain => Some(&PLAIN),
            Self::Each(each) => each.get(number),
        }
    }
}

impl FromIterator<ViewResult> for ViewResults {
    fn from_iter<I: IntoIterator<Item = ViewResult>>(results: I) -> Self {
        let mut plain = 0;
        let mut each = Vec::new();
        for result in results {
            if each.is_empty() && matches!(&result, Ok(values) if values.is_empty()) {
                plain += 1;
                continue;
            }
            if each.is_empty() {
                each.resize(plain, PLAIN.clone());
            }
            each.push(result);
        }
        if each.is_empty() {
            return Self::Plain;
        }
        Self::Each(each.into())
    }
}

impl ViewsVersion {
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_gets_its_own_finding_back() {
        let filed = || Ok(vec![IndexValues::from(["red".into()])]);
        let unreadable = || Err(Arc::from("no"));
        let plain = || Ok(Vec::new());
        for each in [
            vec![plain(), plain()],
            vec![plain(), filed(), plain()],
            vec![plain(), plain(), unreadable()],
            vec![filed(), plain()],
        ] {
            let results: ViewResults = each.iter().cloned().collect();
            for (number, result) in each.iter().enumerate() {
                assert_eq!(results.get(number), Some(result));
            }
        }
        assert!(ViewResults::default().get(0).is_none());
    }
}
