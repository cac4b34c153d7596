//! Driver: waits until a condition holds, or checks that it stays true, on a real or a paused clock.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

use crate::page;

/// The time limit of [`eventually`], in the time of the runtime's clock.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The interval between checks of the condition. On a paused clock it takes no real time.
const INTERVAL: Duration = Duration::from_millis(10);

/// The largest time limit: longer than any test, and short enough to be added to any time.
pub(crate) const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// The last observation if the first check did not end.
const NO_ANSWER: &str = "nothing: the check did not end";

/// The error of a condition that did not become true, stopped being true, or became true although it must not.
///
/// `Debug` prints the same text as `Display`, because a failed `unwrap` prints `Debug`.
#[derive(derive_more::Debug, thiserror::Error)]
#[debug("{text}")]
#[error("{text}")]
pub struct ConditionError {
    text: String,
}

impl ConditionError {
    pub(crate) fn new(text: String) -> Self {
        Self { text }
    }

    pub(crate) fn with(mut self, report: &str) -> Self {
        self.text.push('\n');
        self.text.push_str(report);
        self
    }
}

/// Repeats `check` until it returns `Ok`, and returns its value.
///
/// `check` returns `Err` with a description of the observed state; the error contains the last one.
/// Tests that must not depend on the number of intermediate steps wait for a state in this way.
///
/// # Errors
/// [`ConditionError`] after [`PATIENCE`], even during a check.
///
/// # Cancel safety
/// Cancel safe if `check` is: only the last description is kept between checks.
pub async fn eventually<T, F: Future<Output = Result<T, String>>>(
    what: &str,
    check: impl FnMut() -> F,
) -> Result<T, ConditionError> {
    eventually_within(PATIENCE, what, check).await
}

/// Waits like [`eventually`], with another time limit, in the time of the runtime's clock.
///
/// # Errors
/// [`ConditionError`] after the time limit, even during a check.
///
/// # Cancel safety
/// Same as [`eventually`].
pub async fn eventually_within<T, F: Future<Output = Result<T, String>>>(
    patience: Duration,
    what: &str,
    check: impl FnMut() -> F,
) -> Result<T, ConditionError> {
    // Boxed, so that the futures of tests stay small.
    let wait = Box::pin(retried(patience, what, check));
    match page::watched(what, wait).await {
        Ok(found) => Ok(found),
        Err(text) => Err(unmet(text).await),
    }
}

async fn unmet(text: String) -> ConditionError {
    page::failed(&text).await;
    ConditionError::new(text)
}

async fn retried<T, F: Future<Output = Result<T, String>>>(
    patience: Duration,
    what: &str,
    mut check: impl FnMut() -> F,
) -> Result<T, String> {
    let deadline = Instant::now() + patience.min(FOREVER);
    let mut seen = NO_ANSWER.to_owned();
    loop {
        match timeout_at(deadline, check()).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(instead)) => seen = instead,
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            let text = format!("{what} did not come true within {patience:?}; last seen: {seen}");
            return Err(text);
        }
        sleep_until(deadline.min(Instant::now() + INTERVAL)).await;
    }
}

/// Repeats `check` for the duration `lasting`; every check must return `Ok`.
///
/// A check that has not ended when the time is over is ignored.
///
/// # Errors
/// [`ConditionError`] at the first check that returns `Err`, with its text and the time.
///
/// # Cancel safety
/// Same as [`eventually`].
pub async fn consistently<T, F: Future<Output = Result<T, String>>>(
    lasting: Duration,
    what: &str,
    check: impl FnMut() -> F,
) -> Result<(), ConditionError> {
    repeat(lasting, check, |after, result| {
        let seen = result.err()?;
        Some(format!(
            "{what} stopped being true after {after:?}; seen: {seen}"
        ))
    })
    .await
}

/// Repeats `check` for the duration `lasting`; no check may return `Ok`. This is the opposite of [`eventually`].
///
/// # Errors
/// [`ConditionError`] at the first check that returns `Ok`, with its value and the time.
///
/// # Cancel safety
/// Same as [`eventually`].
pub async fn never<T: fmt::Debug, F: Future<Output = Result<T, String>>>(
    lasting: Duration,
    what: &str,
    check: impl FnMut() -> F,
) -> Result<(), ConditionError> {
    repeat(lasting, check, |after, result| {
        let found = result.ok()?;
        Some(format!(
            "{what} came true after {after:?} and must not; found: {found:?}"
        ))
    })
    .await
}

/// Repeats `check` until `problem` returns the text of an error about a result and its time.
async fn repeat<T, F: Future<Output = Result<T, String>>>(
    lasting: Duration,
    mut check: impl FnMut() -> F,
    problem: impl Fn(Duration, Result<T, String>) -> Option<String>,
) -> Result<(), ConditionError> {
    let (began, lasting) = (Instant::now(), lasting.min(FOREVER));
    while let Ok(result) = timeout_at(began + lasting, check()).await {
        let after = began.elapsed();
        if let Some(text) = problem(after, result) {
            return Err(unmet(text).await);
        }
        if after >= lasting {
            break;
        }
        sleep_until((began + lasting).min(Instant::now() + INTERVAL)).await;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_may_be_the_maximum() {
        let mut looks = 0;
        let third = eventually_within(Duration::MAX, "the third look", || {
            looks += 1;
            ready(if looks < 3 {
                Err(looks.to_string())
            } else {
                Ok(looks)
            })
        });
        assert_eq!(third.await.unwrap(), 3);
        let broken = consistently(Duration::MAX, "nothing", || {
            ready(Err::<(), _>(String::new()))
        });
        assert!(broken.await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_contains_the_last_observation() {
        let mut looks = 0;
        let error = eventually("the impossible", || {
            looks += 1;
            ready(Err::<(), _>(format!("look {looks}")))
        })
        .await
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("the impossible did not come true"),
            "{text}"
        );
        assert!(text.ends_with(&format!("look {looks}")), "{text}");
        assert_eq!(
            format!("{error:?}"),
            text,
            "what `unwrap` prints is readable"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_value_of_the_check_is_returned() {
        let mut looks = 0;
        let found = eventually("the third look", || {
            looks += 1;
            let look = looks;
            ready(if look == 3 {
                Ok(look)
            } else {
                Err(look.to_string())
            })
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hanging_check_times_out_with_the_observation_before() {
        let mut looks = 0;
        let error = eventually_within(Duration::from_secs(5), "it", || {
            looks += 1;
            let hangs = looks > 1;
            async move {
                if hangs {
                    pending::<()>().await;
                }
                Err::<(), _>("the first look".to_owned())
            }
        });
        let text = error.await.unwrap_err().to_string();
        assert!(
            text.ends_with("within 5s; last seen: the first look"),
            "{text}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_stops_being_true_is_reported() {
        let began = Instant::now();
        let minute = Duration::from_secs(60);
        let check = || {
            ready(if began.elapsed() < Duration::from_secs(30) {
                Ok("well")
            } else {
                Err("ill".to_owned())
            })
        };
        let text = consistently(minute, "health", check)
            .await
            .unwrap_err()
            .to_string();
        assert_eq!(text, "health stopped being true after 30s; seen: ill");
        assert!(began.elapsed() < minute);
        consistently(minute, "peace", || ready(Ok::<_, String>(())))
            .await
            .unwrap();
        assert!(began.elapsed() >= minute);
    }

    #[tokio::test(start_paused = true)]
    async fn a_condition_that_must_not_hold_is_reported_up_to_the_last_moment() {
        let began = Instant::now();
        let ten = Duration::from_secs(10);
        let check = || {
            ready(if began.elapsed() >= ten {
                Ok("a second Pod")
            } else {
                Err(String::new())
            })
        };
        let text = never(ten, "a twin", check).await.unwrap_err().to_string();
        assert_eq!(
            text,
            "a twin came true after 10s and must not; found: \"a second Pod\""
        );
        let silent = || pending::<Result<(), String>>();
        never(ten, "an answer", silent).await.unwrap();
    }
}
