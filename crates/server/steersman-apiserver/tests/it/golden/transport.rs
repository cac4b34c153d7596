//! The transport to a server, which is all that the replayer knows of it, so that a server behind
//! HTTPS can replace the one in process.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, Request};
use http_body_util::{BodyStream, Full};
use steersman_apiserver::{ApiServer, User};
use tower::ServiceExt;

use super::ledger::Ledger;

/// A request.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: BTreeMap<&'a str, &'a str>,
    pub(super) body: String,
    /// Whether it is sent without the default credential.
    pub(super) anonymous: bool,
}

/// An answer with a body that arrives piece by piece.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case; the values of one name joined by commas.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: BoxStream<'static, Bytes>,
}

impl Answer {
    /// Returns the whole body.
    pub(super) async fn text(mut self) -> String {
        let mut all = Vec::new();
        while let Some(piece) = self.body.next().await {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }
}

/// Creates a request of the replayer's own, with a JSON body.
pub(super) fn request<'a>(method: &'a str, path: &'a str, body: &str) -> Ask<'a> {
    Ask {
        method,
        path,
        headers: BTreeMap::from([
            ("Content-Type", "application/json"),
            ("User-Agent", "golden/1"),
        ]),
        body: body.to_owned(),
        anonymous: false,
    }
}

/// The recorder's name for the namespace of the conversation. Its length does not matter.
pub(super) const NAMESPACE: &str = "golden";

pub(super) trait Transport {
    /// Sends a request.
    async fn send(&self, ask: Ask<'_>) -> Answer;

    /// Makes the server compact its first revisions, as on a server that has run for a while.
    async fn age(&self);

    /// Returns the additional time that a watch may take to deliver the recorded events: zero with
    /// tokio's paused clock, which stands still while the server works.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Waits as long as the recorder did between two steps.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Returns whether real seconds pass between two steps.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// Returns the list of objects to remove; `None` for a server that does not outlive the replay.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }

    /// Returns a name for the namespace of a conversation.
    fn namespace(&self) -> String {
        NAMESPACE.to_owned()
    }
}

impl Transport for ApiServer {
    async fn send(&self, ask: Ask<'_>) -> Answer {
        let mut request = Request::builder().method(ask.method).uri(ask.path);
        for (name, value) in &ask.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(ask.body))).unwrap();
        let service = if ask.anonymous {
            self.service_as(User::anonymous())
        } else {
            self.service()
        };
        let response = service.oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let pieces = BodyStream::new(body).map(|frame| {
            let mut data = frame.unwrap().into_data().unwrap();
            data.copy_to_bytes(data.remaining())
        });
        Answer {
            status: parts.status.as_u16(),
            headers: joined(&parts.headers),
            body: pieces.boxed(),
        }
    }

    async fn age(&self) {
        self.compact();
    }
}

/// Returns the headers of an answer in the form of [`Answer`].
pub(super) fn joined(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut joined: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let value = value.to_str().unwrap();
        joined
            .entry(name.as_str().to_owned())
            .and_modify(|known| {
                known.push_str(", ");
                known.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    joined
}
