//! Driver: the certificate of a server, read again before each handshake.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::{IntCounter, Opts, Registry};
use rustls::ServerConfig;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::certificate::PemPair;
use crate::error::Error;

/// The TLS settings of a server: where its certificate comes from.
///
/// Files are compared with what the server uses before each handshake, so that a handshake uses the files as
/// they are (`SERVE-4`). Files that cannot be used keep the former certificate in use and cost one warning.
#[derive(Clone, Debug)]
#[must_use]
pub struct TlsOptions {
    source: CertificateOrigin,
    http2: bool,
    metrics: Option<CertificateMetrics>,
}

#[derive(Clone, Debug)]
enum CertificateOrigin {
    SelfSigned,
    Files { chain: PathBuf, key: PathBuf },
}

/// The certificate that a server uses now.
pub(crate) struct Certificates {
    options: TlsOptions,
    current: Mutex<Current>,
}

struct Current {
    pair: PemPair,
    config: Arc<ServerConfig>,
    /// The problem that was logged last.
    problem: Option<String>,
}

/// The metrics of certificate files, under the names of controller-runtime's certificate watcher. Cheap to clone;
/// the servers of one registry share them.
#[derive(Clone, Debug)]
#[must_use]
pub struct CertificateMetrics {
    reads: IntCounter,
    errors: IntCounter,
}

/// How long files may take to be read before the handshake uses the former certificate.
const LONGEST_READ: Duration = Duration::from_secs(2);

impl TlsOptions {
    /// Generates a certificate for `localhost` when the server is made. Clients cannot verify it, as with the
    /// default of controller-runtime.
    pub fn self_signed() -> Self {
        Self::new(CertificateOrigin::SelfSigned)
    }

    /// Reads the certificate chain and its key from two PEM files.
    pub fn files(chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self::new(CertificateOrigin::Files {
            chain: chain.into(),
            key: key.into(),
        })
    }

    /// Reads `tls.crt` and `tls.key` from a directory: the keys of a Secret of type `kubernetes.io/tls`.
    pub fn directory(directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref();
        Self::files(directory.join("tls.crt"), directory.join("tls.key"))
    }

    fn new(source: CertificateOrigin) -> Self {
        Self {
            source,
            http2: false,
            metrics: None,
        }
    }

    /// Sets whether clients may use HTTP/2. Off by default, as in the programs that kubebuilder generates,
    /// because a client can cost an HTTP/2 server more than an HTTP/1.1 server.
    pub fn http2(mut self, on: bool) -> Self {
        self.http2 = on;
        self
    }

    /// Counts changed files, and files that could not be used.
    pub fn metrics(mut self, metrics: CertificateMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns whether the files are counted.
    #[must_use]
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }
}

impl Certificates {
    /// Reads or generates the first certificate.
    pub(crate) async fn new(options: TlsOptions) -> Result<Self, Error> {
        let place = options.place();
        let source = options.source.clone();
        let read = spawn_blocking(move || match &source {
            CertificateOrigin::SelfSigned => {
                PemPair::self_signed().map_err(|problem| Error::Certificate {
                    place: "the server itself".to_owned(),
                    problem,
                })
            }
            CertificateOrigin::Files { chain, key } => read_files(chain, key),
        });
        let pair = read.await.map_err(|error| Error::Certificate {
            place: place.clone(),
            problem: error.to_string(),
        })??;
        let config = pair
            .server_config(options.http2)
            .map_err(|problem| Error::Certificate { place, problem })?;
        Ok(Self {
            options,
            current: Mutex::new(Current {
                pair,
                config,
                problem: None,
            }),
        })
    }

    /// Returns the settings for the next handshake.
    pub(crate) async fn current(&self) -> Arc<ServerConfig> {
        if let CertificateOrigin::Files { chain, key } = &self.options.source {
            let (chain, key) = (chain.clone(), key.clone());
            let read = spawn_blocking(move || read_files(&chain, &key));
            match timeout(LONGEST_READ, read).await {
                Ok(Ok(Ok(pair))) => self.take(pair),
                Ok(Ok(Err(error))) => self.keep(&steersman_object::report(&error).to_string()),
                Ok(Err(error)) => self.keep(&error.to_string()),
                Err(_) => self.keep("reading the files takes too long"),
            }
        }
        Arc::clone(&self.current.lock().config)
    }

    /// Uses the certificate from now on if it differs from the present one and is valid.
    fn take(&self, pair: PemPair) {
        if self.current.lock().pair == pair {
            // The files are as they were before they could not be used.
            self.current.lock().problem = None;
            return;
        }
        match pair.server_config(self.options.http2) {
            Ok(config) => {
                let mut current = self.current.lock();
                *current = Current {
                    pair,
                    config,
                    problem: None,
                };
                drop(current);
                if let Some(metrics) = &self.options.metrics {
                    metrics.reads.inc();
                }
                info!(
                    place = self.options.place(),
                    "new connections use the changed certificate"
                );
            }
            Err(problem) => self.keep(&problem),
        }
    }

    /// SERVE-4: keeps the present certificate, and logs each problem once.
    fn keep(&self, problem: &str) {
        let mut current = self.current.lock();
        if current.problem.as_deref() == Some(problem) {
            return;
        }
        current.problem = Some(problem.to_owned());
        drop(current);
        if let Some(metrics) = &self.options.metrics {
            metrics.reads.inc();
            metrics.errors.inc();
        }
        warn!(
            place = self.options.place(),
            problem,
            "the changed certificate cannot be used, the server keeps the former one: correct the files"
        );
    }
}

impl TlsOptions {
    fn place(&self) -> String {
        match &self.source {
            CertificateOrigin::SelfSigned => "the server itself".to_owned(),
            CertificateOrigin::Files { chain, key } => {
                format!("{} and {}", chain.display(), key.display())
            }
        }
    }
}

impl CertificateMetrics {
    /// Registers `certwatcher_read_certificate_total` and `certwatcher_read_certificate_errors_total`.
    ///
    /// # Errors
    ///
    /// [`Error::Metrics`] if the registry has them already.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let register = || {
            Ok(Self {
                reads: counter(
                    registry,
                    "certwatcher_read_certificate_total",
                    "Changed certificate files that were read",
                )?,
                errors: counter(
                    registry,
                    "certwatcher_read_certificate_errors_total",
                    "Changed certificate files that could not be used",
                )?,
            })
        };
        register().map_err(Error::Metrics)
    }
}

fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    let counter = IntCounter::with_opts(Opts::new(name, help))?;
    registry.register(Box::new(counter.clone()))?;
    Ok(counter)
}

fn read_files(chain: &Path, key: &Path) -> Result<PemPair, Error> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|source| Error::CertificateFile {
            path: path.to_owned(),
            source,
        })
    };
    Ok(PemPair {
        chain: read(chain)?,
        key: read(key)?,
    })
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Certificates")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
