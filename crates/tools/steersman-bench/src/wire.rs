//! Driver: clients of servers: a minimal HTTPS client with almost no cost in comparison with the server, and kube-rs.

use std::path::Path;
use std::sync::Arc;

use kube_client::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use steersman_apiserver::Serving;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::process::BenchResult;

/// The address of a server, and its certificate authority.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct ServerAddress {
    pub(crate) address: String,
    pub(crate) ca_pem: String,
}

/// A connection with one request in flight.
pub(crate) struct Exchange {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

pub(crate) async fn kube_client(kubeconfig: &Path) -> BenchResult<kube_client::Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let config = kube_client::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    Ok(kube_client::Client::try_from(config)?)
}

pub(crate) fn trust(place: &ServerAddress) -> BenchResult<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(place.ca_pem.as_bytes())?)?;
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

impl ServerAddress {
    pub(crate) fn of(serving: &Serving) -> Self {
        Self {
            address: serving.addr().to_string(),
            ca_pem: serving.ca_pem().to_owned(),
        }
    }

    /// Requests a path, and fails unless the answer is a 200.
    pub(crate) async fn check(&self, path: &str) -> BenchResult<()> {
        let asked = Exchange::get(self, &trust(self)?, path).await?;
        let (_, answer) = asked.drain().await?;
        if answer.starts_with("HTTP/1.1 200 ") {
            return Ok(());
        }
        Err(format!("{path}: {answer}").into())
    }
}

impl Exchange {
    /// Connects and requests a path.
    pub(crate) async fn get(
        place: &ServerAddress,
        trust: &TlsConnector,
        path: &str,
    ) -> BenchResult<Self> {
        let socket = TcpStream::connect(&place.address).await?;
        socket.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        let mut stream = trust.connect(name, socket).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\naccept: application/json\r\nconnection: close\r\n\r\n",
            place.address
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(Self {
            stream,
            buffer: vec![0; 256 * 1024],
        })
    }

    /// Returns the next bytes; empty at the end.
    pub(crate) async fn read(&mut self) -> BenchResult<&[u8]> {
        match self.stream.read(&mut self.buffer).await {
            Ok(read) => Ok(&self.buffer[..read]),
            // Closed without a TLS close notification, which also ends a response.
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(&[]),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the response, and returns its size in bytes and its last thousand bytes.
    pub(crate) async fn drain(mut self) -> BenchResult<(u64, String)> {
        let (mut all, mut tail) = (0, Vec::new());
        loop {
            let piece = self.read().await?;
            if piece.is_empty() {
                return Ok((all, String::from_utf8_lossy(&tail).into_owned()));
            }
            all += piece.len() as u64;
            tail.extend_from_slice(&piece[piece.len().saturating_sub(1000)..]);
            tail.drain(..tail.len().saturating_sub(1000));
        }
    }
}
