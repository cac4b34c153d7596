//! How a request reaches a server. The replayer knows no more of a server than this, so that one
//! behind HTTPS can stand in for the one in process.

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

/// What is sent.
#[derive(Debug)]
pub(super) struct Ask<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) headers: BTreeMap<&'a str, &'a str>,
    pub(super) body: String,
    /// Whether it goes without the credential that others have.
    pub(super) anonymous: bool,
}

/// What comes back, the body piece by piece as it arrives.
pub(super) struct Answer {
    pub(super) status: u16,
    /// Names in lower case; several of one name joined by a comma.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: BoxStream<'static, Bytes>,
}

impl Answer {
    /// The whole body.
    pub(super) async fn text(mut self) -> String {
        let mut all = Vec::new();
        while let Some(piece) = self.body.next().await {
            all.extend_from_slice(&piece);
        }
        String::from_utf8(all).unwrap()
    }
}

/// A request of the replayer's own, with a JSON body.
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

/// The namespace of the conversation, as the recorder named it, whose length matters nowhere.
pub(super) const NAMESPACE: &str = "golden";

pub(super) trait Transport {
    /// Sends a request.
    async fn send(&self, ask: Ask<'_>) -> Answer;

    /// Makes the server forget its first revisions, as one that has run for a while has.
    async fn age(&self);

    /// How much longer than recorded a watch may take to bring what was recorded: nothing where
    /// time is tokio's, which does not pass while the server works.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    /// Lets time pass, as the recorder did between two steps.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Whether seconds pass between two steps, as they do at a server with a clock of its own.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// Where objects are noted that must not stay; none where the server itself does not stay.
    fn ledger(&self) -> Option<&Ledger> {
        None
    }

    /// A name for the namespace of a conversation.
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

/// The headers of an answer, as [`Answer`] has them.
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
