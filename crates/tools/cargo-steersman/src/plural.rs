//! Machine: the ending of a noun after its number.

/// Returns the ending of a noun after a number: none after 1.
pub(crate) fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}
