//! Driver: the credentials of a transport, read again when their files change.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use kube_client::client::ConfigExt as _;
use kube_client::{Config, Error as KubeError};
use parking_lot::Mutex;
use rustls::ClientConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::task::spawn_blocking;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::any_certificate::AnyCertificate;
use crate::explain::explain_client;
use crate::plugin;

/// How often the files are read again: as often as client-go and kube-client read tokens.
const READ_AGAIN: Duration = Duration::from_secs(60);

/// The credentials of a transport: the authorities that verify the server, and the client's certificate or token.
///
/// CONN-4: the files are read again before a connection opens, every minute with requests, and when the server refuses
/// the credentials. If a file is unreadable or invalid, the last valid credentials stay in use.
pub(crate) struct Credentials {
    config: Config,
    endpoint: Arc<str>,
    files: Vec<PathBuf>,
    token: Option<PathBuf>,
    current: Mutex<Current>,
    /// Held by the one task that reads the files.
    reading: tokio::sync::Mutex<()>,
}

/// The credentials as last read. Not `Debug`, because they include keys.
struct Current {
    /// The content of `files`, in their order.
    read: Vec<Option<Vec<u8>>>,
    /// The TLS settings; `None` for a server without TLS.
    tls: Option<Arc<ClientConfig>>,
    /// The number of changes of `tls` so far.
    generation: u64,
    /// The `Authorization` header; `None` unless the token is in a file.
    header: Option<HeaderValue>,
    changes: u64,
    read_at: Instant,
}

impl Credentials {
    /// Reads the credentials of a configuration. Blocks while a plugin makes client certificates: `exec` is only set if
    /// the plugin gave no token.
    pub(crate) fn new(config: Config, endpoint: Arc<str>) -> Result<Self, String> {
        if CryptoProvider::get_default().is_none() {
            // An error means that a provider is installed already, which is kept.
            let _ = ring::default_provider().install_default();
        }
        let files = files(&config);
        let token = token_file(&config);
        let read = read_all(&files);
        let tls = tls(&config).map_err(|error| explain_client(&error))?;
        let certificate = tls.as_ref().map(|tls| &tls.client_auth_cert_resolver);
        if let Some(exec) = &config.auth_info.exec
            && !certificate.is_some_and(|certificate| certificate.has_certs())
        {
            return Err(plugin::gave_nothing(exec));
        }
        let header = token.as_ref().map(read_token).transpose()?;
        Ok(Self {
            config,
            endpoint,
            files,
            token,
            current: Mutex::new(Current {
                read,
                tls: tls.map(Arc::new),
                generation: 0,
                header,
                changes: 0,
                read_at: Instant::now(),
            }),
            reading: tokio::sync::Mutex::default(),
        })
    }

    pub(crate) fn tls(&self) -> (Option<Arc<ClientConfig>>, u64) {
        let current = self.current.lock();
        (current.tls.clone(), current.generation)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.current.lock().generation
    }

    /// Returns the `Authorization` header; `None` unless the token is in a file.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        self.current.lock().header.clone()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.current.lock().changes
    }

    /// Reads the files again if the last read was a minute ago. Returns whether the credentials have changed.
    pub(crate) async fn keep_fresh(self: &Arc<Self>) -> bool {
        let due = {
            let mut current = self.current.lock();
            let due = current.read_at.elapsed() >= READ_AGAIN && self.has_files();
            if due {
                // The time is set before the read, so that other requests continue with the current credentials.
                current.read_at = Instant::now();
            }
            due
        };
        due && self.renew(self.changes()).await
    }

    /// Reads the files again, unless `tls` has changed more than `known` times. Returns whether the credentials have
    /// changed.
    pub(crate) async fn renew(self: &Arc<Self>, known: u64) -> bool {
        if !self.has_files() {
            return false;
        }
        let _one_reader = self.reading.lock().await;
        if self.changes() == known {
            let this = Arc::clone(self);
            // A failed task has changed nothing.
            let _ = spawn_blocking(move || this.read_again()).await;
        }
        self.changes() != known
    }

    fn has_files(&self) -> bool {
        self.token.is_some() || !self.files.is_empty()
    }

    fn read_again(&self) {
        self.current.lock().read_at = Instant::now();
        self.read_token_again();
        self.read_files_again();
    }

    fn read_token_again(&self) {
        let Some(path) = &self.token else {
            return;
        };
        match read_token(path) {
            Ok(header) => {
                let mut current = self.current.lock();
                if current.header.as_ref() != Some(&header) {
                    debug!(endpoint = %self.endpoint, file = %path.display(), "the token has changed");
                    current.header = Some(header);
                    current.changes += 1;
                }
            }
            Err(problem) => warn!(
                endpoint = %self.endpoint,
                "{problem}; the last token that was read stays in use, mount the file again"
            ),
        }
    }

    fn read_files_again(&self) {
        let read = read_all(&self.files);
        if self.current.lock().read == read {
            return;
        }
        match tls(&self.config) {
            Ok(tls) => {
                debug!(endpoint = %self.endpoint, "the certificates have changed");
                let mut current = self.current.lock();
                current.read = read;
                current.tls = tls.map(Arc::new);
                current.generation += 1;
                current.changes += 1;
            }
            // The files may be inconsistent for a moment, for example a new certificate with the old key.
            Err(error) => warn!(
                endpoint = %self.endpoint,
                "the certificates have changed and cannot be used: {}; the last good ones stay in \
                 use, check the files of the kubeconfig or of the service account",
                explain_client(&error)
            ),
        }
    }
}

/// Returns the paths of the TLS files. Inline certificates never change.
fn files(config: &Config) -> Vec<PathBuf> {
    let user = &config.auth_info;
    let certificate = user.client_certificate.as_ref();
    let key = user.client_key.as_ref();
    [
        config.root_cert_file.clone(),
        certificate
            .filter(|_| user.client_certificate_data.is_none())
            .map(PathBuf::from),
        key.filter(|_| user.client_key_data.is_none())
            .map(PathBuf::from),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn read_all(files: &[PathBuf]) -> Vec<Option<Vec<u8>>> {
    files.iter().map(|path| std::fs::read(path).ok()).collect()
}

/// Returns the path of the token file, unless another credential has priority (kube-client, `Auth::try_from`).
pub(crate) fn token_file(config: &Config) -> Option<PathBuf> {
    let user = &config.auth_info;
    let basic = user.username.is_some() && user.password.is_some();
    let other = basic || user.auth_provider.is_some() || user.token.is_some();
    user.token_file
        .as_ref()
        .filter(|_| !other)
        .map(PathBuf::from)
}

fn read_token(path: &PathBuf) -> Result<HeaderValue, String> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the token file {name} cannot be read: {error}"))?;
    let token = text.trim();
    if token.is_empty() {
        return Err(format!("the token file {name} is empty"));
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| format!("the token file {name} holds what no header can hold"))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Makes the TLS settings from the current content of the files.
fn tls(config: &Config) -> Result<Option<ClientConfig>, KubeError> {
    if config.cluster_url.scheme_str() != Some("https") {
        return Ok(None);
    }
    let mut config = config.clone();
    if let Some(bundle) = config.root_cert_file.take() {
        let name = bundle.display();
        let authorities: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(&bundle).and_then(Iterator::collect);
        let authorities = authorities.map_err(|error| {
            KubeError::Service(format!("the certificate authority {name}: {error}").into())
        })?;
        if authorities.is_empty() {
            let problem = format!("the certificate authority {name} holds no certificate");
            return Err(KubeError::Service(problem.into()));
        }
        config.root_cert = Some(authorities.iter().map(|one| one.to_vec()).collect());
    }
    let mut tls = config.rustls_client_config()?;
    if config.accept_invalid_certs {
        tls.dangerous()
            .set_certificate_verifier(Arc::new(AnyCertificate::default()));
    }
    Ok(Some(tls))
}
