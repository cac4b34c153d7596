//! Driver: the certificate of a server, checked for changes before each handshake.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};

use crate::certificate::PemPair;
use crate::certificate_metrics::CertificateMetrics;
use crate::error::Error;
use crate::shared_certificate::{self, SharedCertificate};
use steersman_certificates::{CertificateState, CertificateTimes};

/// The TLS settings of a server: where its certificate comes from.
///
/// Before each handshake, the server reads its certificate files (SERVE-4) or its [shared certificate](Self::shared)
/// again. If the files are not usable, the former certificate stays in use, with one warning per problem. The metrics
/// count each failed read, so that an alert lasts as long as the problem.
#[derive(Clone, Debug)]
#[must_use]
pub struct TlsOptions {
    source: CertificateOrigin,
    client_ca: Option<PathBuf>,
    http2: bool,
    metrics: Option<CertificateMetrics>,
}

#[derive(Clone, Debug)]
enum CertificateOrigin {
    SelfSigned,
    Files { chain: PathBuf, key: PathBuf },
    Shared(SharedCertificate),
}

#[derive(derive_more::Debug)]
#[debug("Certificates {{ options: {options:?}, .. }}")]
pub(crate) struct Certificates {
    options: TlsOptions,
    server: String,
    /// The wall clock that decides about the validity of certificates.
    clock: fn() -> Timestamp,
    current: Mutex<Current>,
}

struct Current {
    pair: Arc<PemPair>,
    /// The TLS settings; `None` until the program sets a shared certificate.
    config: Option<Arc<ServerConfig>>,
    problem: Option<String>,
    /// The validity of the certificate; `None` if it is not set, or is not valid X.509.
    times: Option<CertificateTimes>,
    state: CertificateState,
}

/// A changed certificate in the files, with the TLS settings made from it.
struct ChangedPair {
    pair: Arc<PemPair>,
    config: Arc<ServerConfig>,
}

/// The time limit for reading the files; then the handshake uses the former certificate.
const LONGEST_READ: Duration = Duration::from_secs(2);
/// The pause between two checks of the certificate while there are no handshakes.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl TlsOptions {
    /// Generates a self-signed certificate for `localhost` when the server is made. Clients cannot verify it. This is
    /// also the default of controller-runtime.
    pub fn self_signed() -> Self {
        Self::new(CertificateOrigin::SelfSigned)
    }

    /// Reads the certificate chain and the key from two PEM files.
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

    /// Uses the certificate that the program sets and replaces while the server runs. The server listens before the
    /// first certificate is set, but its handshakes fail until then.
    pub fn shared(certificate: SharedCertificate) -> Self {
        Self::new(CertificateOrigin::Shared(certificate))
    }

    /// Uses this certificate like [`shared`](Self::shared), and keeps the other settings.
    pub fn with_certificate(mut self, certificate: SharedCertificate) -> Self {
        self.source = CertificateOrigin::Shared(certificate);
        self
    }

    fn new(source: CertificateOrigin) -> Self {
        Self {
            source,
            client_ca: None,
            http2: false,
            metrics: None,
        }
    }

    /// Requires a client certificate that an authority in this PEM file has signed; other handshakes fail. The file is
    /// checked for changes like the certificate files. By default clients need no certificate.
    pub fn client_ca(mut self, file: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(file.into());
        self
    }

    /// Returns whether clients need a certificate.
    pub fn has_client_ca(&self) -> bool {
        self.client_ca.is_some()
    }

    /// Sets whether clients may use HTTP/2. Off by default, as in programs of kubebuilder, because HTTP/2 clients can
    /// cost a server more.
    pub fn http2(mut self, on: bool) -> Self {
        self.http2 = on;
        self
    }

    /// Sets the metrics, which count changed files and failed reads.
    pub fn metrics(mut self, metrics: CertificateMetrics) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Returns whether [`metrics`](Self::metrics) were set.
    pub fn has_metrics(&self) -> bool {
        self.metrics.is_some()
    }

    fn has_files(&self) -> bool {
        matches!(self.source, CertificateOrigin::Files { .. }) || self.client_ca.is_some()
    }

    /// Reads the files or the shared certificate. A self-signed certificate does not change.
    fn read(&self, present: &PemPair) -> Result<PemPair, Error> {
        let mut pair = match &self.source {
            CertificateOrigin::SelfSigned => present.clone(),
            CertificateOrigin::Files { chain, key } => PemPair {
                chain: read_file(chain)?,
                key: read_file(key)?,
                client_authorities: None,
            },
            CertificateOrigin::Shared(shared) => {
                shared.pair().as_deref().cloned().unwrap_or_default()
            }
        };
        let authorities = self.client_ca.as_deref().map(read_file);
        pair.client_authorities = authorities.transpose()?;
        Ok(pair)
    }

    fn place(&self) -> String {
        let own = match &self.source {
            CertificateOrigin::SelfSigned => "the server itself".to_owned(),
            CertificateOrigin::Files { chain, key } => {
                format!("{} and {}", chain.display(), key.display())
            }
            CertificateOrigin::Shared(_) => shared_certificate::PLACE.to_owned(),
        };
        match &self.client_ca {
            Some(file) => format!("{own}, for clients of {}", file.display()),
            None => own,
        }
    }
}

impl Certificates {
    /// Reads or generates the first certificate. A shared certificate may not be set yet.
    pub(crate) async fn new(options: TlsOptions, server: &str) -> Result<Self, Error> {
        let place = options.place();
        let given = options.clone();
        let read = spawn_blocking(move || {
            let generated = match &given.source {
                CertificateOrigin::SelfSigned => PemPair::self_signed(),
                CertificateOrigin::Files { .. } | CertificateOrigin::Shared(_) => {
                    Ok(PemPair::default())
                }
            };
            let generated = generated.map_err(|problem| Error::Certificate {
                place: "the server itself".to_owned(),
                problem,
            })?;
            given.read(&generated)
        });
        let pair = read.await.map_err(|error| Error::Certificate {
            place: place.clone(),
            problem: error.to_string(),
        })??;
        let is_shared = matches!(options.source, CertificateOrigin::Shared(_));
        let is_absent = is_shared && pair.chain.is_empty();
        let config = (!is_absent).then(|| pair.server_config(options.http2));
        let config = config
            .transpose()
            .map_err(|problem| Error::Certificate { place, problem })?;
        let certificates = Self {
            options,
            server: server.to_owned(),
            clock: Timestamp::now,
            current: Mutex::new(Current {
                times: CertificateTimes::of_pem(&pair.chain),
                pair: Arc::new(pair),
                config,
                problem: None,
                state: CertificateState::Valid,
            }),
        };
        certificates.show_times();
        certificates.note_state();
        Ok(certificates)
    }

    /// Returns the TLS settings for a handshake; `None` until the program sets a certificate.
    pub(crate) async fn current(&self) -> Option<Arc<ServerConfig>> {
        if let CertificateOrigin::Shared(shared) = &self.options.source {
            // CERT-5: handshakes fail until the program sets a certificate.
            let set = shared.pair()?;
            if !self.options.has_files() {
                self.take_shared(set);
            }
        }
        if self.options.has_files() {
            let options = self.options.clone();
            let present = Arc::clone(&self.current.lock().pair);
            let read = move || changed_pair(&present, options.http2, || options.read(&present));
            match timeout(LONGEST_READ, spawn_blocking(read)).await {
                Ok(Ok(Ok(changed))) => self.take(changed),
                Ok(Ok(Err(problem))) => self.keep(&problem),
                Ok(Err(error)) => self.keep(&error.to_string()),
                Err(_) => self.keep("reading the files takes too long"),
            }
        }
        self.note_state();
        self.current.lock().config.clone()
    }

    /// SERVE-7: checks the certificate every minute, even if no handshake does. Never returns.
    pub(crate) async fn looked_at(&self) -> ! {
        loop {
            sleep(LOOK_AGAIN).await;
            let _config = self.current().await;
        }
    }

    fn show_times(&self) {
        let (times, metrics) = (self.current.lock().times, &self.options.metrics);
        if let (Some(times), Some(metrics)) = (times, metrics) {
            let server = [self.server.as_str()];
            let (from, to) = (times.not_before.as_second(), times.not_after.as_second());
            metrics.not_before.with_label_values(&server).set(from);
            metrics.not_after.with_label_values(&server).set(to);
        }
    }

    /// SERVE-7: logs each change of the certificate's state once.
    fn note_state(&self) {
        let mut current = self.current.lock();
        let Some(times) = current.times else {
            return;
        };
        let state = times.state((self.clock)());
        if state == current.state {
            return;
        }
        current.state = state;
        drop(current);
        let (server, place) = (&*self.server, self.options.place());
        match state {
            CertificateState::NotYetValid(_) | CertificateState::Expired(_) => error!(
                server,
                place,
                "{state}: clients that verify it refuse the server, renew it or correct the clock"
            ),
            CertificateState::ExpiresSoon(_) => warn!(
                server,
                place,
                "{state}, and nothing has renewed it: see to its renewal, such as that of cert-manager"
            ),
            CertificateState::Valid => info!(server, place, "{state}"),
        }
    }

    /// CERT-5: switches to the certificate that the program has set.
    fn take_shared(&self, pair: Arc<PemPair>) {
        let mut current = self.current.lock();
        if Arc::ptr_eq(&pair, &current.pair) {
            return;
        }
        if *pair == *current.pair {
            current.pair = pair;
            return;
        }
        drop(current);
        match pair.server_config(self.options.http2) {
            Ok(config) => self.take(Some(ChangedPair { pair, config })),
            Err(problem) => self.keep(&problem),
        }
    }

    /// Switches to the changed certificate. `None` means that the files have the current certificate again after a
    /// problem.
    fn take(&self, changed: Option<ChangedPair>) {
        let mut current = self.current.lock();
        current.problem = None;
        let Some(ChangedPair { pair, config }) = changed else {
            return;
        };
        current.times = CertificateTimes::of_pem(&pair.chain);
        (current.pair, current.config) = (pair, Some(config));
        drop(current);
        self.show_times();
        if let Some(metrics) = &self.options.metrics {
            metrics.reads.inc();
        }
        info!(
            place = self.options.place(),
            "new connections use the changed certificate"
        );
    }

    /// SERVE-4: keeps the current certificate, counts a failed read, and logs a new problem once.
    fn keep(&self, problem: &str) {
        if let Some(metrics) = &self.options.metrics {
            metrics.reads.inc();
            metrics.errors.inc();
        }
        let mut current = self.current.lock();
        if current.problem.as_deref() == Some(problem) {
            return;
        }
        current.problem = Some(problem.to_owned());
        drop(current);
        warn!(
            place = self.options.place(),
            problem,
            "the changed certificate cannot be used, the server keeps the former one: correct the files"
        );
    }
}

/// Returns the pair in the files if it is valid and differs from the current one; otherwise the problem, if any.
///
/// SERVE-4: unusable files are read a second time, because the files of a Secret may have been replaced between the two
/// reads.
fn changed_pair(
    present: &Arc<PemPair>,
    http2: bool,
    read: impl Fn() -> Result<PemPair, Error>,
) -> Result<Option<ChangedPair>, String> {
    let once = || {
        let pair = read().map_err(|error| steersman_object::report(&error).to_string())?;
        if pair == **present {
            return Ok(None);
        }
        let config = pair.server_config(http2)?;
        let pair = Arc::new(pair);
        Ok(Some(ChangedPair { pair, config }))
    };
    once().or_else(|_problem: String| once())
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(|source| Error::CertificateFile {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn read_of(reads: Vec<PemPair>) -> impl Fn() -> Result<PemPair, Error> {
        let reads = RefCell::new(reads.into_iter());
        move || Ok(reads.borrow_mut().next().unwrap())
    }

    /// SERVE-7: a certificate that is not valid, or not for long, is logged once per change.
    #[tokio::test(start_paused = true)]
    async fn a_server_without_handshakes_sees_that_its_certificate_has_expired() {
        let folder = tempfile::tempdir().unwrap();
        let pair = PemPair::self_signed().unwrap();
        std::fs::write(folder.path().join("tls.crt"), &pair.chain).unwrap();
        std::fs::write(folder.path().join("tls.key"), &pair.key).unwrap();
        let options = TlsOptions::directory(folder.path());
        let mut certificates = Certificates::new(options, "webhooks").await.unwrap();
        certificates.clock = || Timestamp::MAX;
        let look = timeout(LOOK_AGAIN * 3 / 2, certificates.looked_at()).await;
        assert!(look.is_err());
        let state = certificates.current.lock().state;
        assert!(matches!(state, CertificateState::Expired(_)), "{state}");
    }

    /// SERVE-4: each handshake uses the present certificate files.
    #[test]
    fn files_that_were_replaced_between_two_reads_are_read_once_more() {
        let (old, new) = (
            PemPair::self_signed().unwrap(),
            PemPair::self_signed().unwrap(),
        );
        let mixed = PemPair {
            key: new.key.clone(),
            ..old.clone()
        };
        let present = Arc::new(old.clone());
        let changed = |reads: &[&PemPair]| {
            let reads = reads.iter().map(|pair| (*pair).clone()).collect();
            changed_pair(&present, false, read_of(reads))
        };
        let found = changed(&[&mixed, &new]).unwrap().unwrap();
        assert!(*found.pair == new);
        assert!(changed(&[&old]).unwrap().is_none());
        assert!(changed(&[&mixed, &old]).unwrap().is_none());
        assert!(changed(&[&mixed, &mixed]).is_err());
    }
}
