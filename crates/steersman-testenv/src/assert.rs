//! Driver: waits until something holds, or watches that it does, on a real or a paused clock.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};

/// How long [`eventually`] waits, in the time of the runtime's clock.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often the condition is looked at. On a paused clock a wait between two looks takes no time.
const INTERVAL: Duration = Duration::from_millis(10);

/// Longer than any test, and short enough to be added to any time.
pub(crate) const FOREVER: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// What is seen where a look did not even end.
const NO_ANSWER: &str = "nothing: the look itself had no answer";

/// A condition that did not come to hold, ceased to, or held though it never should.
///
/// `Debug` is the same text as `Display`, because it is what a failed `unwrap` in a test prints.
pub struct Unmet {
    text: String,
}

impl Unmet {
    fn new(text: String) -> Self {
        Self { text }
    }

    /// The same with a report beneath.
    pub(crate) fn with(mut self, report: &str) -> Self {
        self.text.push('\n');
        self.text.push_str(report);
        self
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Unmet {}

/// Looks again and again until `check` answers `Ok`, and gives what it found.
///
/// `check` answers `Err` with what it saw instead; the last such text is part of the error. For
/// tests that must not depend on how often the world moves in between: they name the state that
/// they wait for, never a number of turns.
///
/// # Errors
///
/// [`Unmet`] when [`PATIENCE`] ran out, also in the middle of a look.
///
/// # Cancel safety
///
/// Cancel safe where `check` is: nothing is kept between two looks but the last text.
pub async fn eventually<T, C, F>(what: &str, check: C) -> Result<T, Unmet>
where
    C: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
    eventually_within(PATIENCE, what, check).await
}

/// [`eventually`] with a patience of its own, in the time of the runtime's clock.
///
/// # Errors
///
/// [`Unmet`] when the patience ran out, also in the middle of a look.
///
/// # Cancel safety
///
/// As [`eventually`].
pub async fn eventually_within<T, C, F>(
    patience: Duration,
    what: &str,
    mut check: C,
) -> Result<T, Unmet>
where
    C: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
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
            return Err(Unmet::new(text));
        }
        sleep_until(deadline.min(Instant::now() + INTERVAL)).await;
    }
}

/// Looks again and again for as long as `lasting`, and every look must answer `Ok`.
///
/// A look that has no answer when the time is over counts for neither side.
///
/// # Errors
///
/// [`Unmet`] at the first look that answers `Err`, with its text and when that was.
///
/// # Cancel safety
///
/// As [`eventually`].
pub async fn consistently<T, C, F>(lasting: Duration, what: &str, mut check: C) -> Result<(), Unmet>
where
    C: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
    let (began, lasting) = (Instant::now(), lasting.min(FOREVER));
    while let Ok(look) = timeout_at(began + lasting, check()).await {
        let after = began.elapsed();
        if let Err(seen) = look {
            let text = format!("{what} ceased to hold after {after:?}; seen: {seen}");
            return Err(Unmet::new(text));
        }
        if after >= lasting {
            break;
        }
        sleep_until((began + lasting).min(Instant::now() + INTERVAL)).await;
    }
    Ok(())
}

/// Looks again and again for as long as `lasting`, and no look may answer `Ok`: what one would wait
/// for with [`eventually`] must not come true.
///
/// # Errors
///
/// [`Unmet`] at the first look that answers `Ok`, with what it found and when that was.
///
/// # Cancel safety
///
/// As [`eventually`].
pub async fn never<T, C, F>(lasting: Duration, what: &str, mut check: C) -> Result<(), Unmet>
where
    T: fmt::Debug,
    C: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
    let (began, lasting) = (Instant::now(), lasting.min(FOREVER));
    while let Ok(look) = timeout_at(began + lasting, check()).await {
        let after = began.elapsed();
        if let Ok(found) = look {
            let text =
                format!("{what} came true after {after:?}, and never should; found: {found:?}");
            return Err(Unmet::new(text));
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
    async fn patience_may_be_endless() {
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
    async fn the_last_look_is_part_of_the_error() {
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
    async fn what_was_found_is_returned() {
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
    async fn a_look_that_hangs_is_given_up_with_the_one_before() {
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
    async fn what_ceases_to_hold_is_noticed_and_what_holds_is_left_in_peace() {
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
        assert_eq!(text, "health ceased to hold after 30s; seen: ill");
        assert!(began.elapsed() < minute);
        consistently(minute, "peace", || ready(Ok::<_, String>(())))
            .await
            .unwrap();
        assert!(began.elapsed() >= minute);
    }

    #[tokio::test(start_paused = true)]
    async fn what_never_should_is_noticed_at_the_last_moment_too() {
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
            "a twin came true after 10s, and never should; found: \"a second Pod\""
        );
        let silent = || pending::<Result<(), String>>();
        never(ten, "an answer", silent).await.unwrap();
    }
}
