//! Words: what the views of a store make of one object, and which views these were.

use std::sync::Arc;

/// The values of one object in one index.
pub(crate) type IndexValues = Arc<[Arc<str>]>;

/// What a view makes of one object: its values in each index, or why it is kept aside.
pub(crate) type Finding = Result<Vec<IndexValues>, Arc<str>>;

/// What each view makes of an object, in the order of the views. While a list arrives there is one for
/// each object, so the usual one takes no memory of its own.
#[derive(Clone, Debug, Default)]
pub(crate) enum Findings {
    /// Nobody was asked: what is stored stays right.
    #[default]
    Unasked,
    /// Each can read it, and none has an index.
    Plain,
    Each(Box<[Finding]>),
}

/// Stands for the views of a store with their indexes: another one where any of them is another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewsVersion(u64);

/// What the views made of an object when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Judgement {
    pub(crate) version: ViewsVersion,
    pub(crate) findings: Findings,
}

/// It can be read, and is in no index.
static PLAIN: Finding = Ok(Vec::new());

impl Findings {
    /// Of the view of that number.
    pub(crate) fn get(&self, number: usize) -> Option<&Finding> {
        match self {
            Self::Unasked => None,
            Self::Plain => Some(&PLAIN),
            Self::Each(each) => each.get(number),
        }
    }
}

impl FromIterator<Finding> for Findings {
    fn from_iter<I: IntoIterator<Item = Finding>>(findings: I) -> Self {
        let mut plain = 0;
        let mut each = Vec::new();
        for finding in findings {
            if each.is_empty() && matches!(&finding, Ok(values) if values.is_empty()) {
                plain += 1;
                continue;
            }
            if each.is_empty() {
                each.resize(plain, PLAIN.clone());
            }
            each.push(finding);
        }
        if each.is_empty() {
            return Self::Plain;
        }
        Self::Each(each.into())
    }
}

impl ViewsVersion {
    /// Returns the version after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_those_of_their_views_whatever_is_said_of_them() {
        let filed = || Ok(vec![IndexValues::from(["red".into()])]);
        let unreadable = || Err(Arc::from("no"));
        let plain = || Ok(Vec::new());
        for each in [
            vec![plain(), plain()],
            vec![plain(), filed(), plain()],
            vec![plain(), plain(), unreadable()],
            vec![filed(), plain()],
        ] {
            let findings: Findings = each.iter().cloned().collect();
            for (number, finding) in each.iter().enumerate() {
                assert_eq!(findings.get(number), Some(finding));
            }
        }
        assert!(Findings::default().get(0).is_none());
    }
}
