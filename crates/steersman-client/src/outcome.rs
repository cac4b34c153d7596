//! Machine: what became of a write, told from its answer; and when a throttled request is sent again.

use std::time::Duration;

use steersman_api::{About, Error};

use crate::write::{Outcome, Write, Written};

/// A `Retry-After` of nothing would mean to spin.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// What became of a write that was answered so.
pub(crate) fn outcome<'a>(write: &Write, sent: Result<Option<&About>, &'a Error>) -> Outcome<'a> {
    match sent {
        Ok(about) => Outcome::Done(about.and_then(|about| written(write, about))),
        Err(error) if is_unknown(error) => Outcome::Unknown(error),
        Err(error) => Outcome::Refused(error),
    }
}

/// Whether a write that failed so may have been done all the same.
///
/// An answer that does not decode was a success, and any 5xx may come from behind the commit, or from a proxy
/// that lost the server: etcd that timed out is a 500, a request that took too long a 504.
pub(crate) fn is_unknown(error: &Error) -> bool {
    match error.code() {
        Some(code) => code == 408 || (code >= 500 && code != 501),
        None => error.is_transport() || error.is_decode(),
    }
}

/// Whether a question that was refused so would be refused again: it takes somebody else to change that, such as
/// who grants rights. Credentials that are not valid (401) are renewed, and what is expired (410) is asked anew.
pub(crate) fn is_refused_for_good(error: &Error) -> bool {
    match error.code() {
        Some(code) => (400..500).contains(&code) && !matches!(code, 401 | 408 | 410 | 429),
        None => matches!(error, Error::InvalidRequest { .. }),
    }
}

/// How long to wait before a request that was refused so is sent again; none where it is not.
///
/// CLIENT-4: only what was refused for being too much (429), which the server does before it looks at it, and
/// only what may be done twice without harm, should a proxy have been mistaken.
pub(crate) fn wait_before_again(
    error: &Error,
    idempotent: bool,
    waited: Duration,
    patience: Duration,
) -> Option<Duration> {
    if !idempotent || !error.is_throttled() {
        return None;
    }
    let wait = error.retry_after()?.max(SHORTEST_WAIT);
    (waited.checked_add(wait)? <= patience).then_some(wait)
}

/// The object that was written, where the answer is about it.
fn written(write: &Write, about: &About) -> Option<Written> {
    let itself = about.gvk.same_group_kind(write.kind.gvk());
    // A Scale has the uid and the version of the object that is scaled; the Status of a delete has the uid of
    // what is gone, and no namespace.
    let scale = (about.gvk.group(), about.gvk.kind()) == ("autoscaling", "Scale");
    let gone = about.gvk.kind() == "Status" && write.verb == "delete";
    let fits = itself || scale || gone;
    let key = match &write.key {
        Some(key) => key,
        // The server made the name.
        None => &about.key,
    };
    (fits && !about.uid.is_empty()).then(|| Written {
        key: key.clone(),
        uid: about.uid.clone(),
        version: about.version.clone(),
        labels: itself.then(|| about.labels.clone()),
        deleting: about.deleting,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use steersman_api::Asked;
    use steersman_api::error::Status;
    use steersman_object::{Kind, ObjectKey};

    use super::*;

    fn error(code: u16, retry_after: Option<u64>) -> Error {
        let kind = Kind::of::<ConfigMap>();
        let asked = Asked::of_object("patch", &kind, &ObjectKey::namespaced("a", "b"));
        let status = Status {
            code,
            ..Status::default()
        };
        Error::from_status(asked, status, retry_after.map(Duration::from_secs))
    }

    #[test]
    fn a_refusal_is_known_and_a_broken_server_is_not() {
        for code in [400, 401, 403, 404, 409, 410, 415, 422, 429, 501] {
            assert!(!is_unknown(&error(code, None)), "{code}");
        }
        for code in [408, 500, 502, 503, 504] {
            assert!(is_unknown(&error(code, None)), "{code}");
        }
    }

    /// RYOW-3
    #[test]
    fn a_question_is_refused_for_good_where_asking_again_does_not_help() {
        for code in [400, 403, 404, 405, 422] {
            assert!(is_refused_for_good(&error(code, None)), "{code}");
        }
        for code in [401, 408, 410, 429, 500, 501, 503, 504] {
            assert!(!is_refused_for_good(&error(code, None)), "{code}");
        }
    }

    /// CLIENT-4
    #[test]
    fn only_an_idempotent_request_that_was_throttled_waits_and_not_for_long() {
        let (none, ten) = (Duration::ZERO, Duration::from_secs(10));
        let wait = |error: &Error, idempotent, waited| {
            wait_before_again(error, idempotent, waited, ten).map(|d| d.as_secs())
        };
        let throttled = error(429, Some(4));
        assert_eq!(wait(&throttled, true, none), Some(4));
        assert_eq!(wait(&throttled, false, none), None);
        assert_eq!(wait(&throttled, true, Duration::from_secs(6)), Some(4));
        assert_eq!(wait(&throttled, true, Duration::from_secs(7)), None);
        assert_eq!(wait(&error(429, Some(0)), true, none), Some(1));
        assert_eq!(wait(&error(429, None), true, none), None);
        for code in [409, 500, 503, 504] {
            assert_eq!(wait(&error(code, Some(1)), true, none), None, "{code}");
        }
    }
}
