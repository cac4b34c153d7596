//! A server behind HTTPS, with the credentials of a kubeconfig.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Buf;
use futures::StreamExt;
use http::Request;
use http_body_util::BodyStream;
use jiff::Timestamp;
use kube_client::client::Body;
use kube_client::{Client, Config};
use parking_lot::Mutex;
use steersman_apiserver::{ApiServer, ApiServerBuilder};

use super::ledger::Ledger;
use super::transport::{Answer, Ask, NAMESPACE, Transport, joined};

/// A server over the network.
pub(super) struct Remote {
    client: Client,
    /// A client without the credential, for anonymous requests and for requests with their own.
    anonymous: Client,
    embedded: Option<Embedded>,
    run: u32,
    conversations: AtomicU32,
    ledger: Ledger,
}

/// The embedded server itself, and its wall clock. The clock advances by the pauses of the
/// recording, not by the time a busy machine takes, because the order of managedFields depends on
/// the seconds between two writes.
pub(super) struct Embedded {
    server: ApiServer,
    clock: Arc<Mutex<Timestamp>>,
}

impl Embedded {
    pub(super) fn new(builder: ApiServerBuilder) -> Self {
        let clock = Arc::new(Mutex::new(Timestamp::now()));
        let read = Arc::clone(&clock);
        let server = builder.clock(move || *read.lock()).build();
        Self { server, clock }
    }

    pub(super) fn server(&self) -> &ApiServer {
        &self.server
    }
}

impl Remote {
    /// `run` distinguishes the namespaces of this run from those of other runs on the server.
    pub(super) fn new(mut config: Config, embedded: Option<Embedded>, run: u32) -> Self {
        config.default_retry = false;
        let client = Client::try_from(config.clone()).unwrap();
        config.auth_info = Default::default();
        Self {
            client,
            anonymous: Client::try_from(config).unwrap(),
            embedded,
            run,
            conversations: AtomicU32::new(0),
            ledger: Ledger::default(),
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
        // A broken connection ends the answer; the comparison shows what is missing.
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
        if let Some(embedded) = &self.embedded {
            embedded.server.compact();
        }
    }

    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
        if let Some(embedded) = &self.embedded {
            *embedded.clock.lock() += time;
        }
    }

    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn has_own_clock(&self) -> bool {
        self.embedded.is_none()
    }

    fn ledger(&self) -> Option<&Ledger> {
        self.embedded.is_none().then_some(&self.ledger)
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
