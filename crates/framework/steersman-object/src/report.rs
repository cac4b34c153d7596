//! Words: formats an error and its causes on one line.

use std::error::Error;
use std::fmt;

/// Displays an error and its causes as `error: cause: cause`; see [`report`].
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("{self}")]
pub struct Report<'a> {
    error: &'a (dyn Error + 'static),
}

/// Returns the whole chain of an error, for logs and for the end of `main`.
///
/// Each error of these crates displays itself only; [`source`](Error::source) returns the cause. A
/// `main` that returns an error prints its `Debug` form instead.
///
/// ```
/// use steersman_object::report;
///
/// let error = "a/b/c".parse::<steersman_object::ObjectKey>().unwrap_err();
/// eprintln!("error: {}", report(&error));
/// ```
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
    fn a_report_contains_every_cause() {
        assert_eq!(report(&Outer(Inner)).to_string(), "cannot write: refused");
        assert_eq!(report(&Inner).to_string(), "refused");
    }
}
