//! Words: the encoding of objects on the wire, and the fallback of a client configuration to JSON.

use std::collections::BTreeSet;
use std::env::VarError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use steersman_object::Kind;
use steersman_protobuf::{Message, Unknown};
use tracing::warn;

use crate::metrics::HostMetrics;

/// The encoding of objects between a client and its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// JSON for every kind.
    Json,
    /// Protobuf for Kubernetes' own kinds, as in client-go, and JSON for other kinds.
    ///
    /// Protobuf costs the server about a third of the work of JSON, and needs fewer bytes.
    #[default]
    Protobuf,
}

/// The environment variable that sets the encoding without a change of the program: `STEERSMAN_ENCODING=json`.
const VARIABLE: &str = "STEERSMAN_ENCODING";

impl Encoding {
    /// Every encoding.
    pub const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// Returns the encoding that the environment variable names or, without it, the default.
    pub(crate) fn of_environment() -> Self {
        match std::env::var(VARIABLE) {
            Ok(named) if named.eq_ignore_ascii_case("json") => Self::Json,
            Ok(named) if named.is_empty() || named.eq_ignore_ascii_case("protobuf") => {
                Self::Protobuf
            }
            Err(VarError::NotPresent) => Self::default(),
            _ => {
                warn!("{VARIABLE} is neither json nor protobuf: it has no effect");
                Self::default()
            }
        }
    }
}

/// Returns whether a kind is one of Kubernetes' own, so that its objects may be sent in protobuf.
pub fn has_protobuf(kind: &Kind) -> bool {
    let gvk = kind.gvk();
    Message::of_kind(&gvk.api_version(), gvk.kind()).is_some()
}

/// The encoding of one client configuration, shared by its clients.
#[derive(Debug)]
pub(crate) struct SharedEncoding {
    chosen: Encoding,
    /// Whether the server has shown that it does not support protobuf.
    fell_back: AtomicBool,
    /// The kinds with unknown fields that were logged already.
    reported_kinds: Mutex<BTreeSet<String>>,
}

impl SharedEncoding {
    pub(crate) fn new(chosen: Encoding) -> Arc<Self> {
        Arc::new(Self {
            chosen,
            fell_back: AtomicBool::new(false),
            reported_kinds: Mutex::default(),
        })
    }

    pub(crate) fn is_protobuf(&self) -> bool {
        self.chosen == Encoding::Protobuf && !self.fell_back.load(Ordering::Relaxed)
    }

    /// Uses JSON from now on (CONN-7).
    fn fall_back(&self, problem: &str) {
        if !self.fell_back.swap(true, Ordering::Relaxed) {
            warn!(
                problem,
                "the server does not speak protobuf as Kubernetes does: JSON from here on; \
                 {VARIABLE}=json, or `ClientConfig::encoding`, avoids the attempt"
            );
        }
    }
}

/// Marks an HTTP request that may be sent in protobuf. Without the middleware of a client configuration, the request is
/// sent as JSON.
#[derive(Clone, Debug)]
pub(crate) struct Negotiable {
    /// The `Accept` header that prefers protobuf.
    pub(crate) accept: &'static str,
    pub(crate) object: Option<(Kind, Bytes)>,
}

/// How one request was sent, and how its answer is encoded. Cheap to clone.
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Negotiated {{ asked_protobuf: {asked_protobuf}, is_protobuf: {is_protobuf}, .. }}")]
pub(crate) struct Negotiated {
    /// The encoding of the client configuration; `None` for a client that was made without one.
    pub(crate) by: Option<Arc<SharedEncoding>>,
    pub(crate) metrics: Option<Arc<HostMetrics>>,
    pub(crate) asked_protobuf: bool,
    pub(crate) sent_protobuf: bool,
    pub(crate) is_protobuf: bool,
}

impl Negotiated {
    /// Notes that the server does not support protobuf.
    pub(crate) fn fall_back(&self, problem: &str) {
        if let Some(by) = &self.by {
            by.fall_back(problem);
        }
    }

    /// Notes dropped fields, which the table of messages does not know.
    pub(crate) fn note_unknown(&self, kind: &str, unknown: &Unknown) {
        let Some((message, number)) = unknown.first else {
            return;
        };
        if let Some(metrics) = &self.metrics {
            metrics.count_dropped_fields(kind, unknown.count);
        }
        let is_new = |by: &Arc<SharedEncoding>| {
            let mut reported = by.reported_kinds.lock();
            !reported.contains(kind) && reported.insert(kind.to_owned())
        };
        if self.by.as_ref().is_none_or(is_new) {
            warn!(
                kind,
                protobuf_message = message,
                number,
                "the server sends fields that this version of Steersman does not know; they are left out"
            );
        }
    }
}
