//! Words: an error and its causes in one line.

use std::error::Error;
use std::fmt;

/// Displays an error and the causes behind it, `what failed: why: why that`; see [`report`].
#[derive(Clone, Copy)]
pub struct Report<'a> {
    error: &'a (dyn Error + 'static),
}

/// The whole chain of an error, for logs and for the end of `main`.
///
/// The errors of these crates display one level each, and [`source`](Error::source) has the next. A
/// `main` that returns an error prints its `Debug` form instead, which few want to read.
///
/// ```
/// use steersman_object::report;
///
/// let error = "a/b/c".parse::<steersman_object::ObjectKey>().unwrap_err();
/// eprintln!("error: {}", report(&error));
/// ```
#[must_use]
pub fn report<'a>(error: &'a (dyn Error + 'static)) -> Report<'a> {
    Report { error }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error, f)?;
        let mut cause = self.error.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use thiserror::Error;

    use super::*;

    #[derive(Debug, Error)]
    #[error("refused")]
    struct Inner;

    #[derive(Debug, Error)]
    #[error("cannot write")]
    struct Outer(#[source] Inner);

    #[test]
    fn every_cause_is_on_the_line() {
        assert_eq!(report(&Outer(Inner)).to_string(), "cannot write: refused");
        assert_eq!(report(&Inner).to_string(), "refused");
    }
}
