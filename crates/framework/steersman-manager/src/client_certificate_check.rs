//! Driver: checks each minute whether the client certificate of a cluster's requests is still valid.

use std::future::pending;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use prometheus::{IntGaugeVec, Registry, register_int_gauge_vec_with_registry};
use steersman_api::{ClientCertificate, ClientConfig};
use steersman_serve::{CertificateState, CertificateTimes};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};

use crate::monitor::ShownCluster;

/// The time between two checks, equal to that between two reads of credentials in files (CONN-4).
const PAUSE: Duration = Duration::from_secs(60);

/// Checks the client certificate of one cluster (HEALTH-5).
pub(crate) struct ClientCertificateCheck {
    client_config: ClientConfig,
    metrics: Option<ClientCertificateMetrics>,
    state: CertificateState,
}

/// The expiry times of the client certificates of all clusters of one registry. A cluster without a client certificate
/// has no series.
#[derive(Clone, Debug)]
pub(crate) struct ClientCertificateMetrics(IntGaugeVec);

// === impl ClientCertificateMetrics ===

impl ClientCertificateMetrics {
    pub(crate) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let gauge = register_int_gauge_vec_with_registry!(
            "steersman_client_certificate_not_after_timestamp_seconds",
            "When the certificate that requests to the API server carry expires, in seconds since 1970",
            &["host"],
            registry
        )?;
        Ok(Self(gauge))
    }
}

// === impl ClientCertificateCheck ===

impl ClientCertificateCheck {
    pub(crate) fn new(
        client_config: ClientConfig,
        metrics: Option<ClientCertificateMetrics>,
    ) -> Self {
        Self {
            client_config,
            metrics,
            state: CertificateState::Valid,
        }
    }

    /// Checks the certificate regularly, and shows a problem in the health of the manager.
    pub(crate) async fn run(mut self, shown: &ShownCluster, clock: fn() -> Timestamp) -> ! {
        if self.client_config.is_in_process() {
            // Requests to a server in this process carry no certificate. The thread of a read would make the order of tasks
            // on a paused clock depend on the machine.
            pending::<()>().await;
        }
        loop {
            let client_config = self.client_config.clone();
            // The read fails only if its task panicked.
            let read = spawn_blocking(move || client_config.client_certificate()).await;
            match read {
                Ok(None) => pending::<()>().await,
                Ok(Some(Ok(certificate))) => {
                    shown.note_client_certificate(self.look(&certificate, clock()));
                }
                // The `ClientConfig` itself reports credentials that it cannot read (CONN-4).
                Ok(Some(Err(_))) | Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// HEALTH-5: logs each change of the certificate's state once. Returns the problem, if there is one.
    fn look(&mut self, certificate: &ClientCertificate, wall: Timestamp) -> Option<String> {
        let times = CertificateTimes::of_pem(&certificate.chain)?;
        if let Some(ClientCertificateMetrics(gauge)) = &self.metrics {
            let gauge = gauge.with_label_values(&[self.client_config.host()]);
            gauge.set(times.not_after.as_second());
        }
        let state = times.state(wall);
        let (endpoint, place) = (self.client_config.endpoint(), &*certificate.place);
        if state != self.state {
            self.state = state;
            match state {
                CertificateState::NotYetValid(_) | CertificateState::Expired(_) => error!(
                    endpoint,
                    place,
                    "{state}: the API server refuses new connections with it, renew it or correct the clock"
                ),
                CertificateState::ExpiresSoon(_) => warn!(
                    endpoint,
                    place,
                    "{state}, and nothing has renewed it: renew the client certificate of the operator"
                ),
                CertificateState::Valid => info!(endpoint, place, "{state}"),
            }
        }
        (state != CertificateState::Valid).then(|| format!("{endpoint}: {place}: {state}"))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use rcgen::{CertificateParams, KeyPair};
    use steersman_api::kube_client::client::Body;
    use tower::service_fn;

    use super::*;

    /// HEALTH-5
    #[test]
    fn a_client_certificate_is_seen_before_and_after_its_end() {
        let log = steersman_testenv::log::capture();
        let mut params = CertificateParams::new(vec!["operator".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let certificate = ClientCertificate {
            place: "client.crt".to_owned(),
            chain: made.pem().into_bytes(),
        };
        let service = service_fn(|_: Request<Body>| async {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let registry = Registry::new();
        let metrics = ClientCertificateMetrics::register(&registry).unwrap();
        let client_config = ClientConfig::in_process(service, "default");
        let mut check = ClientCertificateCheck::new(client_config, Some(metrics));
        let mut look = |wall: &str| check.look(&certificate, wall.parse().unwrap());
        assert_eq!(look("2026-06-01T00:00:00Z"), None);
        for (wall, state) in [
            ("2026-12-25T00:00:00Z", "expires at 2027-01-01"),
            ("2026-12-26T00:00:00Z", "expires at 2027-01-01"),
            ("2027-01-02T00:00:00Z", "expired at 2027-01-01"),
            ("2025-01-01T00:00:00Z", "not valid before 2026-01-01"),
        ] {
            let finding = look(wall).unwrap();
            assert!(
                finding.contains("client.crt") && finding.contains(state),
                "{finding}"
            );
        }
        assert_eq!(look("2026-06-01T00:00:00Z"), None);
        let text = log.text();
        for (level, lines) in [("WARN", 1), ("ERROR", 2), ("INFO", 1)] {
            assert_eq!(text.matches(level).count(), lines, "{text}");
        }
        let gauge = registry.gather()[0].get_metric()[0].get_gauge().get_value();
        assert!((gauge - 1_798_761_600.0).abs() < 1.0, "{gauge}");
    }
}
