//! Machine: the ending of a noun after its number.

pub(crate) fn plural(number: usize) -> &'static str {
    if number == 1 { "" } else { "s" }
}
