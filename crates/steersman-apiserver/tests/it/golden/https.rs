//! A server behind HTTPS, reached with the credentials of a kubeconfig.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Buf;
use futures::StreamExt;
use http::Request;
use http_body_util::BodyStream;
use kube_client::client::Body;
use kube_client::{Client, Config};
use steersman_apiserver::ApiServer;

use super::transport::{Answer, Ask, NAMESPACE, Transport, joined};

/// Reached over the network.
pub(super) struct Remote {
    client: Client,
    /// Without the credential: for requests that go without one, or with one of their own.
    anonymous: Client,
    /// The server itself where it is the embedded one.
    embedded: Option<ApiServer>,
    run: u32,
    conversations: AtomicU32,
}

impl Remote {
    /// `run` tells the namespaces of this run from those of others on the same server.
    pub(super) fn new(mut config: Config, embedded: Option<ApiServer>, run: u32) -> Self {
        config.default_retry = false;
        let client = Client::try_from(config.clone()).unwrap();
        config.auth_info = Default::default();
        Self {
            client,
            anonymous: Client::try_from(config).unwrap(),
            embedded,
            run,
            conversations: AtomicU32::new(0),
        }
    }
}

impl Transport for Remote {
    async fn send(&self, ask: Ask<'_>) -> Answer {
        let mut request = Request::builder().method(ask.method).uri(ask.path);
        let mut own_credential = ask.anonymous;
        for (name, value) in &ask.headers {
            own_credential |= name.eq_ignore_ascii_case("authorization");
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(ask.body.into_bytes())).unwrap();
        let client = if own_credential {
            &self.anonymous
        } else {
            &self.client
        };
        let response = client.send(request).await.unwrap();
        let (parts, body) = response.into_parts();
        // A connection that breaks ends the answer; what is missing shows in the comparison.
        let pieces = BodyStream::new(body).filter_map(async |frame| {
            let mut data = frame.ok()?.into_data().ok()?;
            Some(data.copy_to_bytes(data.remaining()))
        });
        Answer {
            status: parts.status.as_u16(),
            headers: joined(&parts.headers),
            body: pieces.boxed(),
        }
    }

    async fn age(&self) {
        if let Some(server) = &self.embedded {
            server.compact();
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn namespace(&self) -> String {
        match self.embedded {
            Some(_) => NAMESPACE.to_owned(),
            None => {
                let number = self.conversations.fetch_add(1, Ordering::Relaxed);
                format!("{NAMESPACE}-{:x}-{number}", self.run)
            }
        }
    }
}
