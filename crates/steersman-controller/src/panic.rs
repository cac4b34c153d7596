//! Machine: reads what a panic said.

use std::any::Any;

/// The text of a panic, or a remark that there is none.
pub(crate) fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a text".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_both_kinds_are_read() {
        let catch = |f: fn()| std::panic::catch_unwind(f).unwrap_err();
        assert_eq!(message_of(&*catch(|| panic!("plain"))), "plain");
        assert_eq!(message_of(&*catch(|| panic!("{} left", 3))), "3 left");
        assert_eq!(
            message_of(&*catch(|| std::panic::panic_any(7))),
            "a panic without a text"
        );
    }
}
