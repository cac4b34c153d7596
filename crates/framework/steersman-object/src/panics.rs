//! Words: the message of a panic.

use std::any::Any;

/// Returns the message of a panic from the payload of `catch_unwind`; a placeholder if the payload is no text.
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a text")
}

/// Returns the message of the panic that ended a task, from the result of `JoinError::try_into_panic`; for a cancelled
/// task, the text of the error.
pub fn task_panic_text<E: std::fmt::Display>(panic: Result<Box<dyn Any + Send>, E>) -> String {
    match panic {
        Ok(payload) => panic_text(&*payload).to_owned(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_task_is_that_of_its_panic_or_of_its_error() {
        let panicked: Result<Box<dyn Any + Send>, &str> = Ok(Box::new("plain"));
        assert_eq!(task_panic_text(panicked), "plain");
        assert_eq!(task_panic_text(Err("cancelled")), "cancelled");
    }

    #[test]
    fn the_text_of_a_static_or_formatted_panic_is_returned() {
        let catch = |f: fn()| std::panic::catch_unwind(f).unwrap_err();
        assert_eq!(panic_text(&*catch(|| panic!("plain"))), "plain");
        assert_eq!(panic_text(&*catch(|| panic!("{} left", 3))), "3 left");
        assert_eq!(
            panic_text(&*catch(|| std::panic::panic_any(7))),
            "a panic without a text"
        );
    }
}
