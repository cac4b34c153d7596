//! Words: the text of a panic.

use std::any::Any;

/// The text of a panic, from the payload that `catch_unwind` returns, or a remark that it has none.
#[must_use]
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_kinds_are_read() {
        let catch = |f: fn()| std::panic::catch_unwind(f).unwrap_err();
        assert_eq!(panic_text(&*catch(|| panic!("plain"))), "plain");
        assert_eq!(panic_text(&*catch(|| panic!("{} left", 3))), "3 left");
        assert_eq!(
            panic_text(&*catch(|| std::panic::panic_any(7))),
            "a panic without a text"
        );
    }
}
