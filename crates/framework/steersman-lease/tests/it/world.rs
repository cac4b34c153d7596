//! Helpers: a server, candidates for one Lease, and the content of the Lease.

use std::time::Duration;

use serde_json::Value;
use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Effect, FaultGuard, FaultSpec};
use steersman_lease::{Elector, LeaderElection};

pub(crate) const LEASES: &str = "leases.coordination.k8s.io";
pub(crate) const RETRY: Duration = Duration::from_secs(2);
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// Returns options with the identity `name` and the seed of the pauses. They do not abort the test process.
pub(crate) fn options(name: &str, seed: u64) -> LeaderElection {
    LeaderElection::new("demo")
        .identity(name)
        .seed(seed)
        .abort_with(|_| {})
        .on_callers_runtime()
}

/// Returns the client configuration of a program called `name`, by which faults select requests.
pub(crate) fn connect(server: &ApiServer, name: &str) -> ClientConfig {
    ClientConfig::in_process(server.service(), "default").user_agent(name, "1")
}

/// Starts a candidate with the default durations.
pub(crate) fn candidate(server: &ApiServer, name: &str, seed: u64) -> Elector {
    start(options(name, seed), server, name)
}

pub(crate) fn start(options: LeaderElection, server: &ApiServer, name: &str) -> Elector {
    let mut elector = Elector::new(options, &connect(server, name)).unwrap();
    elector.start().unwrap();
    elector
}

/// Starts a candidate, and waits until it leads.
pub(crate) async fn leader(server: &ApiServer, name: &str) -> Elector {
    let elector = candidate(server, name, 1);
    soon(elector.leadership().elected()).await;
    elector
}

/// Makes the server leave every request of a program unanswered.
pub(crate) fn blackhole(server: &ApiServer, name: &str) -> FaultGuard {
    let spec = FaultSpec::new(Effect::Swallow).user_agent(&format!("{name}/"));
    server.faults().add(spec).unwrap()
}

pub(crate) fn lease(server: &ApiServer) -> Value {
    server.get(LEASES, "default", "demo").unwrap()
}

/// Waits with a time limit, so that a failing test does not hang on a paused clock.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(3600), what)
        .await
        .unwrap()
}
