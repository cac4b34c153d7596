//! Words: what a hook is told of a request that failed.

use std::fmt;
use std::sync::Arc;

use steersman_informer::Reason;
use steersman_object::Kind;

/// A list or a watch of an informer that failed; see
/// [`CacheOptions::on_watch_error`](crate::CacheOptions::on_watch_error). A watch that ended as soon as it
/// was open ([`Reason::ShortWatch`]), or was silent for too long ([`Reason::Silent`]), is one; one that
/// lasted or brought something and then ends, or whose connection breaks, is not: it is resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchError {
    /// The kind of the informer.
    pub kind: Kind,
    /// Its namespace; `None` where it looks at all of them, or the kind has none.
    pub namespace: Option<Arc<str>>,
    /// What kind of failure it is.
    pub reason: Reason,
    /// What the server said or what happened, for people; it does not name the kind.
    pub message: String,
    /// Which failure it is since the last success, from 1.
    pub attempt: u32,
}

/// Who is told; nobody by default.
#[derive(Clone, Default)]
pub(crate) struct OnWatchError(pub(crate) Option<Arc<Hook>>);

type Hook = dyn Fn(&WatchError) + Send + Sync;

impl fmt::Debug for OnWatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = if self.0.is_some() { "known" } else { "unknown" };
        f.debug_tuple("OnWatchError").field(&known).finish()
    }
}
