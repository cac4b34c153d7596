//! Driver: the loop of every replica: reads the Secret and hands its certificate to the servers.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use steersman_api::{Api, ClientConfig, Error, ProblemLog, WriteOptions, kube_client};
use steersman_certificates::{KeyedCertificate, Observation, Rotation, StoredCertificates};
use steersman_object::report;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::certificates::built_in::BuiltInCertificates;
use crate::certificates::leader::REQUEST_LIMIT;

struct CertificateFollower<'a> {
    options: &'a BuiltInCertificates,
    client: kube_client::Client,
    current: Option<KeyedCertificate>,
    /// When the Secret was first found absent; `None` while it exists.
    absent_since: Option<Instant>,
    problems: ProblemLog,
}

/// The pause between two reads of the Secret while the replica has no certificate.
const FIRST_INTERVAL: Duration = Duration::from_secs(1);

impl BuiltInCertificates {
    /// Hands the certificate in the Secret to the servers of this replica until `stop` is cancelled.
    ///
    /// The certificate stays in use while the Secret is absent, damaged or unreadable (CERT-5). The loop logs each
    /// problem once, and continues.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn follow(&self, client_config: &ClientConfig, stop: CancellationToken) {
        let work = async {
            let Some(client) = self.connect(client_config, &stop).await else {
                return;
            };
            let mut follower = CertificateFollower {
                options: self,
                client,
                current: None,
                absent_since: None,
                problems: ProblemLog::default(),
            };
            while !stop.is_cancelled() {
                Box::pin(follower.round()).await;
                follower.rest().await;
            }
        };
        // A read of the Secret may be dropped at any time.
        let _ = stop.run_until_cancelled(work).await;
    }

    /// Waits until API servers can call the webhooks of this leader: its servers present a certificate, and the
    /// [leader](Self::lead) in this process has injected the authorities once, or has failed to. An operator that
    /// writes objects of its own webhooks has to wait for this.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn usable(&self) {
        self.authorities.usable().await;
    }
}

impl CertificateFollower<'_> {
    /// Reads the Secret once, and passes its certificate to the servers.
    async fn round(&mut self) {
        let secrets = Api::<Secret>::typed(self.client.clone()).request_timeout(REQUEST_LIMIT);
        match secrets.get_opt(&self.options.secret).await {
            Ok(Some(secret)) => match StoredCertificates::serving(&secret) {
                Ok(leaf) => self.use_certificate(leaf),
                Err(problem) => self.keep(&problem),
            },
            Ok(None) => self.wait_for_secret(&secrets).await,
            Err(error) => self.fail(&error),
        }
        self.check_expiry();
    }

    /// Waits until the next read of the Secret. Without a certificate, a finished round of a leader in this process
    /// ends the wait.
    async fn rest(&self) {
        let interval = self.options.read_interval;
        if self.current.is_some() {
            sleep(interval).await;
            return;
        }
        let round_ended = self.options.authorities.round_ended();
        let _ = timeout(FIRST_INTERVAL.min(interval), round_ended).await;
    }

    fn use_certificate(&mut self, leaf: KeyedCertificate) {
        if self.current.as_ref() != Some(&leaf) {
            let (shared, certificate) = (&self.options.shared, &leaf.certificate);
            if let Err(error) = shared.set(certificate.pem(), leaf.key()) {
                self.keep(&report(&error).to_string());
                return;
            }
            if let Some(metrics) = &self.options.metrics {
                metrics.expiry.set(certificate.not_after.as_second());
            }
            info!(
                secret = %self.options.secret,
                expiry = %certificate.not_after,
                "the webhook servers present the certificate in the Secret"
            );
            self.current = Some(leaf);
            self.options.authorities.presented.cancel();
        }
        self.absent_since = None;
        self.problems.resolve("secret");
    }

    /// CERT-5: keeps the former certificate, and logs the problem of the Secret.
    fn keep(&mut self, problem: &str) {
        if self.options.is_due(&mut self.problems, "secret", problem) {
            warn!(
                secret = %self.options.secret,
                problem,
                "the webhook certificate in the Secret cannot be used, this replica keeps its former one until the \
                 leader has repaired the Secret"
            );
        }
    }

    /// CERT-4: creates the Secret if no leader has. During a rollout, a new replica must become ready first, and the
    /// leader of the former release may have no webhooks.
    async fn wait_for_secret(&mut self, secrets: &Api<Secret>) {
        self.note_absence();
        let now = Instant::now();
        let absent_since = *self.absent_since.get_or_insert(now);
        let patience = self.options.read_interval.saturating_mul(3);
        if self.current.is_some() || now.duration_since(absent_since) < patience {
            return;
        }
        let wall = (self.options.clock)();
        let (nothing, _) = StoredCertificates::read(None, wall);
        let observation = Observation {
            stored: &nothing,
            is_damaged: false,
            former: &[],
            is_injected: true,
        };
        let step =
            Rotation::new(self.options.settings()).next_step(observation, now.into_std(), wall);
        let Ok(Some(step)) = step else { return };
        let secret = step.stored.write(None, &self.options.secret);
        match secrets.create(&secret, &WriteOptions::new()).await {
            Ok(_) => info!(
                secret = %self.options.secret,
                "no leader created the Secret with the webhook certificates, so this replica did"
            ),
            Err(error) if error.is_already_exists() => {}
            Err(error) => self.fail(&error),
        }
    }

    fn note_absence(&mut self) {
        let secret = &self.options.secret;
        if self.current.is_some() {
            if self.options.is_due(&mut self.problems, "secret", "deleted") {
                warn!(
                    %secret,
                    "the Secret with the webhook certificate is gone, this replica keeps its certificate until the \
                     leader has created the Secret"
                );
            }
            return;
        }
        // An absent Secret at the first start of an operator is not counted as a problem.
        let now = Instant::now().into_std();
        if self.problems.is_due("secret", "absent", now) {
            info!(%secret, "the webhook servers wait until the leader has created the Secret");
        }
    }

    fn fail(&mut self, error: &Error) {
        let error = report(error).to_string();
        if self.options.is_due(&mut self.problems, "secret", &error) {
            warn!(
                secret = %self.options.secret,
                error,
                "the webhook certificate cannot be read, trying again"
            );
        }
    }

    fn check_expiry(&mut self) {
        let Some(current) = &self.current else { return };
        let wall = (self.options.clock)();
        match current.certificate.check_time(wall) {
            Ok(()) => {
                self.problems.resolve("expiry");
            }
            Err(problem) => {
                if self.options.is_due(&mut self.problems, "expiry", &problem) {
                    warn!(
                        secret = %self.options.secret,
                        problem,
                        "the webhook certificate of this replica is not valid now: check the clock of this machine, \
                         and the log of the leader"
                    );
                }
            }
        }
    }
}
