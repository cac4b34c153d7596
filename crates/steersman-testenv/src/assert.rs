//! Driver: waits until something holds, on a real or a paused clock.

use std::future::Future;
use std::time::Duration;

use thiserror::Error;

/// How long [`eventually`] waits, in the time of the runtime's clock.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How often the condition is looked at. On a paused clock a wait between two looks takes no time.
const INTERVAL: Duration = Duration::from_millis(10);

/// A condition that never came to hold.
#[derive(Debug, Error)]
#[error("{what} did not come true within {PATIENCE:?}; last seen: {seen}")]
pub struct NeverHeld {
    what: String,
    seen: String,
}

/// Looks again and again until `check` answers `Ok`, and gives what it found.
///
/// `check` answers `Err` with what it saw instead; the last such text is part of the error. For
/// tests that must not depend on how often the world moves in between: they name the state that
/// they wait for, never a number of turns.
///
/// # Errors
///
/// [`NeverHeld`] when [`PATIENCE`] ran out.
///
/// # Cancel safety
///
/// Cancel safe where `check` is: nothing is kept between two looks but the last text.
pub async fn eventually<T, C, F>(what: &str, mut check: C) -> Result<T, NeverHeld>
where
    C: FnMut() -> F,
    F: Future<Output = Result<T, String>>,
{
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        match check().await {
            Ok(found) => return Ok(found),
            Err(seen) if tokio::time::Instant::now() >= deadline => {
                return Err(NeverHeld {
                    what: what.to_owned(),
                    seen,
                });
            }
            Err(_) => tokio::time::sleep(INTERVAL).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_last_look_is_part_of_the_error() {
        let mut looks = 0;
        let error = eventually("the impossible", || {
            looks += 1;
            std::future::ready(Err::<(), _>(format!("look {looks}")))
        })
        .await
        .unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("the impossible did not come true"),
            "{text}"
        );
        assert!(text.ends_with(&format!("look {looks}")), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_is_returned() {
        let mut looks = 0;
        let found = eventually("the third look", || {
            looks += 1;
            let look = looks;
            std::future::ready(if look == 3 {
                Ok(look)
            } else {
                Err(look.to_string())
            })
        });
        assert_eq!(found.await.unwrap(), 3);
    }
}
