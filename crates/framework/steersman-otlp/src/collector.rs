//! Driver: sends the requests of the exporter to the collector over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_http::{HttpClient, HttpError};
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use steersman_object::report;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::error::Error;
use crate::settings::ExportSettings;

/// The problem of the last failed request, for the log.
pub(crate) type LastProblem = Arc<Mutex<Option<String>>>;

/// The client of a collector. It has a runtime of its own and works on the thread of the exporter: exports need no
/// time of the program's tasks, and go on while these stop.
#[derive(derive_more::Debug)]
#[debug("CollectorClient {{ limit: {limit:?}, .. }}")]
pub(crate) struct CollectorClient {
    runtime: Runtime,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    limit: Duration,
    last_problem: LastProblem,
}

/// The largest body of an answer that is read, in bytes.
const ANSWER: usize = 1 << 20;

impl CollectorClient {
    pub(crate) fn new(settings: &ExportSettings, last_problem: LastProblem) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::Setup {
            problem: format!("the runtime of the exporter: {error}"),
        })?;
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(settings)?)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            runtime,
            client: Client::builder(TokioExecutor::new()).build(connector),
            limit: settings.timeout,
            last_problem,
        })
    }

    async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.client.request(request.map(Full::new)).await?;
        let (parts, body) = answer.into_parts();
        let body = Limited::new(body, ANSWER).collect().await?.to_bytes();
        Ok(Response::from_parts(parts, body))
    }

    fn failed(&self, problem: String) -> HttpError {
        *self.last_problem.lock() = Some(problem.clone());
        problem.into()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    /// Sends a request, and blocks its thread meanwhile: only the thread of the exporter calls this function.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = async { timeout(self.limit, self.exchange(request)).await };
        match self.runtime.block_on(sending) {
            Ok(Ok(answer)) => {
                if !answer.status().is_success() {
                    *self.last_problem.lock() = Some(format!("the answer is {}", answer.status()));
                }
                Ok(answer)
            }
            Ok(Err(error)) => Err(self.failed(report(&*error).to_string())),
            Err(_) => Err(self.failed(format!("no answer within {} s", self.limit.as_secs_f64()))),
        }
    }
}

/// Returns the settings of TLS. The certificates of the system are read only for a collector with HTTPS.
fn tls(settings: &ExportSettings) -> Result<rustls::ClientConfig, Error> {
    let problem = |problem: String| Error::Certificates { problem };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| problem(error.to_string()))?;
    let is_https = Uri::scheme_str(&settings.endpoint) == Some("https");
    let verified = match &settings.certificate {
        _ if !is_https => versions.with_root_certificates(RootCertStore::empty()),
        None => versions
            .with_native_roots()
            .map_err(|error| problem(error.to_string()))?,
        Some(path) => {
            let of_file = |error: String| problem(format!("{}: {error}", path.display()));
            let mut roots = RootCertStore::empty();
            let found = CertificateDer::pem_file_iter(path).map_err(|e| of_file(e.to_string()))?;
            for certificate in found {
                let certificate = certificate.map_err(|error| of_file(error.to_string()))?;
                let added = roots.add(certificate);
                added.map_err(|error| of_file(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(of_file("it has no certificate".to_owned()));
            }
            versions.with_root_certificates(roots)
        }
    };
    Ok(verified.with_no_client_auth())
}
