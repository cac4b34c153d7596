//! Machine: parses one part of a set of indexes of a Job: `7`, or `3-5` in `1,3-5`.

/// Parses one part of a set of indexes of a Job. Returns the first and the last index of the part.
///
/// # Errors
/// Fails with kube-apiserver's message if the part has more than one dash, or if an index is no integer or not below
/// `limit`. The order of the two indexes is not checked.
pub fn parse_interval(part: &str, limit: i64) -> Result<(i64, i64), String> {
    let bound = |text: &str| -> Result<i64, String> {
        let wrong = |_| format!("cannot convert string to integer for index: {text:?}");
        let number: i64 = text.parse().map_err(wrong)?;
        if number >= limit {
            return Err(format!("too large index: {text:?}"));
        }
        Ok(number)
    };
    let bounds: Vec<&str> = part.split('-').collect();
    match bounds.as_slice() {
        [index] => bound(index).map(|index| (index, index)),
        [first, last] => Ok((bound(first)?, bound(last)?)),
        _ => Err(format!(
            "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_interval;

    #[test]
    fn a_part_is_one_index_or_two_bounds() {
        assert_eq!(parse_interval("7", 10), Ok((7, 7)));
        assert_eq!(parse_interval("3-5", 10), Ok((3, 5)));
        assert_eq!(parse_interval("5-3", 10), Ok((5, 3)));
        for (part, expected) in [
            ("", "cannot convert"),
            ("3-", "cannot convert"),
            ("3-x", "cannot convert"),
            ("10-x", "too large"),
            ("3-10", "too large"),
            ("1-2-3", "the fragment"),
        ] {
            let refused = parse_interval(part, 10).unwrap_err();
            assert!(refused.starts_with(expected), "{part}: {refused}");
        }
    }
}
