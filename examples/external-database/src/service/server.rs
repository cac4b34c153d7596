//! Handle: the service, within this process and over HTTP.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::net::TcpListener;

use super::records::{Answer, Records};

/// The service. Cheap to clone; clones share its databases.
#[derive(Clone, Debug, Default)]
pub struct DatabaseService {
    records: Arc<Mutex<Records>>,
}

impl DatabaseService {
    /// Starts a service without databases.
    pub fn new() -> Self {
        Self::default()
    }

    /// Listens on a free port of this machine, until the runtime ends, and returns the address.
    ///
    /// # Errors
    ///
    /// The error of the operating system.
    pub async fn serve(&self) -> std::io::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let service = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                tokio::spawn(async move {
                    let respond = service_fn(|request| service.clone().answer(request));
                    let connection =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), respond);
                    // A connection that breaks is the client's to report.
                    let _ = connection.await;
                });
            }
        });
        Ok(address)
    }

    /// Answers a request.
    pub fn respond(&self, method: &Method, path: &str, body: &[u8]) -> Answer {
        self.records.lock().respond(method, path, body)
    }

    /// Reads or changes the databases behind the back of the operator.
    pub fn with<T>(&self, access: impl FnOnce(&mut Records) -> T) -> T {
        access(&mut self.records.lock())
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let (head, body) = request.into_parts();
        let (status, body) = match body.collect().await {
            Ok(body) => self.respond(&head.method, head.uri.path(), &body.to_bytes()),
            Err(_) => (StatusCode::BAD_REQUEST, Value::Null),
        };
        let text = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        Ok(response)
    }
}
