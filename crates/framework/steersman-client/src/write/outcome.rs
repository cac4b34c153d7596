//! Machine: derives the outcome of a write from its answer, and decides whether to repeat a request after a
//! `Retry-After`.

use std::time::Duration;

use bytes::Bytes;
use steersman_api::{AnsweredObject, Error};

use crate::write::{Write, WriteOutcome, WrittenObject};

/// The shortest wait before a request is repeated, so that a `Retry-After` of zero does not become a busy loop.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn outcome<'a>(
    write: &Write,
    sent: Result<(Option<&AnsweredObject>, &Bytes), &'a Error>,
) -> WriteOutcome<'a> {
    match sent {
        Ok((object, body)) => {
            WriteOutcome::Done(object.and_then(|object| written(write, object, body)))
        }
        Err(error) if is_unknown(error) => WriteOutcome::Unknown(error),
        Err(error) => WriteOutcome::Refused(error),
    }
}

/// Returns whether the server may have executed a write that failed with this error.
///
/// If the answer arrives but does not decode, the server has executed the write. A 5xx may be sent after the commit, or
/// by a proxy that lost its connection to the server: a timeout of etcd is a 500, and a request that takes too long is
/// a 504.
pub(crate) fn is_unknown(error: &Error) -> bool {
    match error.code() {
        Some(code) => code == 408 || (code >= 500 && code != 501),
        None => error.is_transport() || error.is_decode(),
    }
}

/// Returns whether the server would refuse the same request until an administrator changes something, such as a Role.
/// False after a 401, because the credentials are renewed, and after a 410, because a later read sends a new request.
pub(crate) fn is_refused_for_good(error: &Error) -> bool {
    match error.code() {
        Some(code) => (400..500).contains(&code) && !matches!(code, 401 | 408 | 410 | 429),
        None => matches!(error, Error::InvalidRequest { .. }),
    }
}

/// The largest number of repetitions of one request: the same as in client-go.
const MOST_REPEATS: u32 = 10;

/// The repetitions of one request so far: their number, and the total time that the request has waited for them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Repeats {
    count: u32,
    waited: Duration,
}

impl Repeats {
    /// Returns the time to wait before the failed request is repeated; `None` if it is not repeated.
    ///
    /// CLIENT-7: a 429 with `Retry-After` says that the request was not executed, whatever its verb. A 5xx with
    /// `Retry-After` may come after the commit of a write, so after a 5xx only reads are repeated.
    pub(crate) fn wait(
        &mut self,
        error: &Error,
        is_read: bool,
        retry_after_limit: Duration,
    ) -> Option<Duration> {
        let code = error.code()?;
        let repeated = code == 429 || (is_read && (500..600).contains(&code));
        if !repeated || self.count >= MOST_REPEATS {
            return None;
        }
        let wait = error.retry_after()?.max(SHORTEST_WAIT);
        let waited = self.waited.checked_add(wait)?;
        if waited > retry_after_limit {
            return None;
        }
        self.count += 1;
        self.waited = waited;
        Some(wait)
    }
}

fn written(write: &Write, object: &AnsweredObject, body: &Bytes) -> Option<WrittenObject> {
    let itself = object.gvk.same_group_kind(write.kind.gvk());
    // Two kinds of answers are not the written object and still describe it: a Scale has the uid and the version of the
    // scaled object, and the Status of a delete has the uid of the deleted object.
    let scale = (object.gvk.group(), object.gvk.kind()) == ("autoscaling", "Scale");
    let gone = object.gvk.kind() == "Status" && write.verb == "delete";
    let fits = itself || scale || gone;
    // For a write without a key the server generated the name, so the key is taken from the answer.
    let key = write.key.as_ref().unwrap_or(&object.key);
    (fits && !object.uid.is_empty()).then(|| WrittenObject {
        key: key.clone(),
        uid: object.uid.clone(),
        version: object.version.clone(),
        labels: itself.then(|| object.labels.clone()),
        deleting: object.deleting,
        finalized: itself && object.finalized,
        body: itself.then(|| body.clone()),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_api::RequestInfo;
    use steersman_api::error::Status;
    use steersman_object::{Kind, ObjectKey};

    use super::*;

    fn error(code: u16, retry_after: Option<u64>) -> Error {
        let kind = Kind::of::<ConfigMap>();
        let asked = RequestInfo::of_object("patch", &kind, &ObjectKey::namespaced("a", "b"));
        let status = Status {
            code,
            ..Status::default()
        };
        Error::from_status(asked, status, retry_after.map(Duration::from_secs))
    }

    #[test]
    fn a_refusal_has_a_known_outcome_and_a_5xx_has_not() {
        for code in [400, 401, 403, 404, 409, 410, 415, 422, 429, 501] {
            assert!(!is_unknown(&error(code, None)), "{code}");
        }
        for code in [408, 500, 502, 503, 504] {
            assert!(is_unknown(&error(code, None)), "{code}");
        }
    }

    /// RYOW-3: such a refusal settles a write with an unknown outcome, because the server would refuse every later
    /// request about it, too.
    #[test]
    fn a_refusal_that_only_an_administrator_can_lift_is_final() {
        for code in [400, 403, 404, 405, 422] {
            assert!(is_refused_for_good(&error(code, None)), "{code}");
        }
        for code in [401, 408, 410, 429, 500, 501, 503, 504] {
            assert!(!is_refused_for_good(&error(code, None)), "{code}");
        }
    }

    /// CLIENT-7: the server did not execute a request that it answered 429. It may have executed a write that it
    /// answered 5xx.
    #[test]
    fn with_a_retry_after_429s_are_repeated_for_all_verbs_and_5xxs_for_reads() {
        let ten = Duration::from_secs(10);
        let wait = |code, after, is_read| {
            let wait = Repeats::default().wait(&error(code, after), is_read, ten);
            wait.map(|wait| wait.as_secs())
        };
        for is_read in [true, false] {
            assert_eq!(wait(429, Some(4), is_read), Some(4));
            assert_eq!(wait(429, Some(0), is_read), Some(1));
            assert_eq!(wait(429, Some(11), is_read), None);
            assert_eq!(wait(429, None, is_read), None);
            assert_eq!(wait(409, Some(1), is_read), None);
        }
        for code in [500, 503, 504] {
            assert_eq!(wait(code, Some(1), true), Some(1), "{code}");
            assert_eq!(wait(code, Some(1), false), None, "{code}");
            assert_eq!(wait(code, None, true), None, "{code}");
        }
    }

    /// CLIENT-7: `retry_after_limit` bounds the total wait, and `MOST_REPEATS` the number of repetitions.
    #[test]
    fn repetitions_are_limited_in_time_and_in_number() {
        let throttled = error(429, Some(4));
        let mut repeats = Repeats::default();
        let ten = Duration::from_secs(10);
        let four = Some(Duration::from_secs(4));
        assert_eq!(repeats.wait(&throttled, false, ten), four);
        assert_eq!(repeats.wait(&throttled, false, ten), four);
        assert_eq!(repeats.wait(&throttled, false, ten), None);
        let mut repeats = Repeats::default();
        for _ in 0..MOST_REPEATS {
            assert_eq!(repeats.wait(&throttled, false, Duration::MAX), four);
        }
        assert_eq!(repeats.wait(&throttled, false, Duration::MAX), None);
        // With a `retry_after_limit` of zero, no request is repeated.
        assert_eq!(
            Repeats::default().wait(&throttled, true, Duration::ZERO),
            None
        );
    }
}
