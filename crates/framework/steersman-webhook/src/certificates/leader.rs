//! Driver: the loop of the leader: reads the Secret, writes its next content, and injects the authorities.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use kube_core::DynamicObject;
use steersman_api::{Api, ClientConfig, Error, Patch, ProblemLog, WriteOptions, kube_client};
use steersman_certificates::{
    Observation, ParsedCertificate, Rotation, RotationChange, StoredCertificates,
};
use steersman_object::report;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::certificates::built_in::BuiltInCertificates;
use crate::certificates::injection::InjectionTarget;

struct CertificateLeader<'a> {
    options: &'a BuiltInCertificates,
    client: kube_client::Client,
    rotation: Rotation,
    problems: ProblemLog,
}

struct Injection {
    /// Whether every existing configuration had the bundle.
    is_complete: bool,
    /// The authorities that the configurations contained.
    found: Vec<ParsedCertificate>,
}

/// The suffix of the `User-Agent` for the requests of both loops.
const AGENT: &str = "webhook-certificates";
pub(super) const REQUEST_LIMIT: Duration = Duration::from_secs(10);
/// The pause after a write conflict on the Secret.
const CONFLICT_PAUSE: Duration = Duration::from_secs(1);
/// The number of attempts per round to read and patch a configuration that other writers change.
const MOST_ATTEMPTS: u32 = 5;

impl BuiltInCertificates {
    /// Maintains the Secret and the configurations until `stop` is cancelled. Only the leader should run it. Two
    /// concurrent runs do no harm, because each write of the Secret requires the version that was read.
    ///
    /// The loop logs each failure once, and continues.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: after each request, the Secret and the configurations are in a state from which the next leader can
    /// continue (CERT-2).
    pub async fn lead(&self, client_config: &ClientConfig, stop: CancellationToken) {
        let work = async {
            let Some(client) = self.connect(client_config, &stop).await else {
                return;
            };
            let mut leader = CertificateLeader {
                options: self,
                client,
                rotation: Rotation::new(self.settings()),
                problems: ProblemLog::default(),
            };
            while !stop.is_cancelled() {
                // The future of a round is large, so it is boxed.
                let pause = Box::pin(leader.round()).await;
                self.authorities.end_round();
                sleep(pause).await;
            }
        };
        // A round may be cancelled between two requests, or during a request.
        let _ = stop.run_until_cancelled(work).await;
    }

    /// Makes the client of a loop; `None` if the loop is stopped while it waits to try again.
    pub(super) async fn connect(
        &self,
        client_config: &ClientConfig,
        stop: &CancellationToken,
    ) -> Option<kube_client::Client> {
        let client_config = client_config.clone().user_agent_suffix(AGENT);
        let mut problems = ProblemLog::default();
        while !stop.is_cancelled() {
            match client_config.connect().await {
                Ok(client) => return Some(client),
                Err(error) => {
                    let error = report(&error).to_string();
                    if self.is_due(&mut problems, "connection", &error) {
                        warn!(
                            secret = %self.secret,
                            error,
                            "the webhook certificates cannot be read, trying again"
                        );
                    }
                    sleep(self.read_interval).await;
                }
            }
        }
        None
    }

    /// Counts a problem in the metrics, and returns whether the problem is to be logged.
    pub(super) fn is_due(&self, problems: &mut ProblemLog, object: &str, problem: &str) -> bool {
        if let Some(metrics) = &self.metrics {
            metrics.errors.inc();
        }
        problems.is_due(object, problem, Instant::now().into_std())
    }
}

impl CertificateLeader<'_> {
    /// Runs one round: reads the Secret, writes its next content, and injects. Returns the pause until the next round.
    async fn round(&mut self) -> Duration {
        let interval = self.options.read_interval;
        let secrets = Api::<Secret>::typed(self.client.clone()).request_timeout(REQUEST_LIMIT);
        let secret = match secrets.get_opt(&self.options.secret).await {
            Ok(secret) => secret,
            Err(error) => {
                self.fail_secret(&error);
                return interval;
            }
        };
        let wall = (self.options.clock)();
        let (stored, problems) = StoredCertificates::read(secret.as_ref(), wall);
        self.note_damage(&problems);
        let bundle = (!stored.is_lost()).then(|| stored.bundle_pem());
        let injection = self.inject(bundle.as_deref()).await;
        let now = Instant::now().into_std();
        let observation = Observation {
            stored: &stored,
            is_damaged: !problems.is_empty(),
            former: &injection.found,
            is_injected: injection.is_complete,
        };
        let step = match self.rotation.next_step(observation, now, wall) {
            Ok(Some(step)) => step,
            Ok(None) => {
                self.problems.resolve("write");
                return interval;
            }
            Err(problem) => {
                self.fail("write", &problem);
                return interval;
            }
        };
        let bundle = step.stored.bundle_pem();
        if step.change == RotationChange::Founded {
            // CERT-4: API servers must trust the new authority before a replica presents its certificate.
            self.inject(Some(&bundle)).await;
        }
        let (is_new, options) = (secret.is_none(), WriteOptions::new());
        let content = step.stored.write(secret, &self.options.secret);
        // CERT-2: one write, which requires the version that was read.
        let written = match is_new {
            true => secrets.create(&content, &options).await,
            false => secrets.update(&content, &options).await,
        };
        match written {
            Ok(_) => {
                self.note(step.change);
                self.inject(Some(&bundle)).await;
                interval
            }
            Err(error) if is_outdated(&error, is_new) => CONFLICT_PAUSE.min(interval),
            Err(error) => {
                self.fail_secret(&error);
                interval
            }
        }
    }

    /// Injects the bundle into all configurations that lack it. Without a bundle, only reads the configurations.
    async fn inject(&mut self, bundle: Option<&str>) -> Injection {
        if let Some(bundle) = bundle {
            self.options.authorities.publish(bundle);
        }
        let mut injection = Injection {
            is_complete: true,
            found: Vec::new(),
        };
        for target in &self.options.targets {
            let object = target.text();
            match inject_into(&self.client, target, bundle).await {
                Ok((found, was_complete)) => {
                    injection.found.extend(found);
                    injection.is_complete &= was_complete;
                    if self.problems.resolve(&object) {
                        info!(
                            object,
                            "the authorities of the webhooks can be injected again"
                        );
                    }
                }
                Err(error) => {
                    injection.is_complete = false;
                    let error = report(&error).to_string();
                    if self.options.is_due(&mut self.problems, &object, &error) {
                        warn!(
                            object,
                            error,
                            "the authorities of the webhooks cannot be injected, trying again"
                        );
                    }
                }
            }
        }
        injection
    }

    fn fail_secret(&mut self, error: &Error) {
        self.fail("write", &report(error).to_string());
    }

    /// Counts and logs a failed read or write of the Secret.
    fn fail(&mut self, object: &str, error: &str) {
        if self.options.is_due(&mut self.problems, object, error) {
            warn!(
                secret = %self.options.secret,
                error,
                "the webhook certificates cannot be kept, trying again"
            );
        }
    }

    /// Logs the unusable parts of the Secret.
    fn note_damage(&mut self, problems: &[String]) {
        if problems.is_empty() {
            self.problems.resolve("content");
            return;
        }
        let problem = problems.join("; ");
        if self.options.is_due(&mut self.problems, "content", &problem) {
            warn!(
                secret = %self.options.secret,
                problem,
                "the webhook certificates in the Secret are damaged and are replaced"
            );
        }
    }

    fn note(&mut self, change: RotationChange) {
        self.problems.resolve("write");
        // The Secret is whole after this write: further damage is logged again.
        self.problems.resolve("content");
        if let Some(metrics) = &self.options.metrics {
            metrics.count(change.has_new_leaf(), change.has_new_authority());
        }
        info!(
            secret = %self.options.secret,
            change = change.text(),
            "the webhook certificates were changed"
        );
    }
}

/// Returns whether a write failed because the Secret has changed since the read.
fn is_outdated(error: &Error, is_new: bool) -> bool {
    // A 404 of a create is no conflict: the namespace is missing.
    error.is_conflict() || error.is_already_exists() || (error.is_not_found() && !is_new)
}

/// Injects a bundle into one object. Returns the authorities that the object had, and whether it had the bundle. A
/// missing object counts as having the bundle.
async fn inject_into(
    client: &kube_client::Client,
    target: &InjectionTarget,
    bundle: Option<&str>,
) -> Result<(Vec<ParsedCertificate>, bool), Error> {
    let objects = Api::<DynamicObject>::new(client.clone(), target.kind());
    let objects = objects.request_timeout(REQUEST_LIMIT);
    let key = target.key();
    let mut attempt = 1;
    loop {
        let Some(object) = objects.get_opt(&key).await? else {
            return Ok((Vec::new(), true));
        };
        let found = target.authorities(&object);
        let Some(patch) = bundle.and_then(|bundle| target.patch(&object, bundle)) else {
            return Ok((found, attempt == 1));
        };
        let (patch, options) = (Patch::Json(patch), WriteOptions::new());
        match objects.patch(&key, &patch, &options).await {
            Ok(_) => {
                info!(
                    object = target.text(),
                    "the authorities of the webhooks were injected"
                );
                return Ok((found, false));
            }
            // The object has changed since it was read, so the patch's test of the version failed.
            Err(error) if attempt < MOST_ATTEMPTS && is_changed(&error) => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

fn is_changed(error: &Error) -> bool {
    error.is_invalid() || error.is_conflict() || error.is_not_found()
}
