//! Machine: decides how an upgrade treats each file.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeStep {
    /// The file stays: its template has not changed, or the user has deleted the file.
    Keep,
    /// The file is created, because its template is new.
    Make,
    /// The file is overwritten, because the user has not changed it.
    Replace,
    /// The file gets this text, which has the changes of the user and of the template.
    Merge(String),
    /// The file stays, and the new text is written beside it, because the changes of both sides conflict.
    Propose,
}

/// Decides about one file: `base` is the text generated before (`None` without a record), `present` is in the folder,
/// and `new` is generated now. `merge` merges the changes from `base` to `new` into the present text unless they
/// conflict.
pub(crate) fn step(
    base: Option<&str>,
    present: Option<&str>,
    new: &str,
    merge: impl FnOnce(&str, &str) -> Option<String>,
) -> MergeStep {
    match (base, present) {
        (None, None) => MergeStep::Make,
        // The user has deleted the file.
        (Some(_), None) => MergeStep::Keep,
        (_, Some(present)) if present == new => MergeStep::Keep,
        (Some(base), Some(_)) if base == new => MergeStep::Keep,
        (Some(base), Some(present)) if base == present => MergeStep::Replace,
        (Some(base), Some(present)) => match merge(base, present) {
            Some(merged) if merged == present => MergeStep::Keep,
            Some(merged) => MergeStep::Merge(merged),
            None => MergeStep::Propose,
        },
        (None, Some(_)) => MergeStep::Propose,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // SCAFFOLD-1: an upgrade loses no change of the user.
    #[test]
    fn a_file_is_written_only_where_no_change_of_the_user_is_lost() {
        use MergeStep::{Keep, Make, Merge, Propose, Replace};
        let clean = |_: &str, _: &str| Some("both".to_owned());
        let conflict = |_: &str, _: &str| None;
        for (base, present, expected, contradicting) in [
            (Some("old"), Some("old"), Replace, Replace),
            (Some("old"), Some("mine"), Merge("both".to_owned()), Propose),
            (Some("old"), Some("new"), Keep, Keep),
            (Some("new"), Some("mine"), Keep, Keep),
            (Some("old"), None, Keep, Keep),
            (None, Some("mine"), Propose, Propose),
            (None, Some("new"), Keep, Keep),
            (None, None, Make, Make),
        ] {
            let case = format!("{base:?} {present:?}");
            assert_eq!(step(base, present, "new", clean), expected, "{case}");
            assert_eq!(
                step(base, present, "new", conflict),
                contradicting,
                "{case}"
            );
        }
        // The user has made the change of the template by hand.
        let same = |_: &str, present: &str| Some(present.to_owned());
        assert_eq!(step(Some("old"), Some("mine"), "new", same), Keep);
    }
}
