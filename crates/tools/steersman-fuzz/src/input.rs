//! Words: the parts of an input.

/// Returns the parts before and after the first separator.
pub(crate) fn split<'a>(input: &'a [u8], separator: &[u8]) -> (&'a [u8], &'a [u8]) {
    let at = input
        .windows(separator.len())
        .position(|window| window == separator);
    match at {
        Some(at) => (&input[..at], &input[at + separator.len()..]),
        None => (input, b""),
    }
}
