//! Tests electors on their own threads, over HTTPS in real time.

use std::sync::mpsc;
use std::time::Duration;

use steersman_api::ClientConfig;
use steersman_apiserver::ApiServer;
use steersman_lease::{ElectionChange, Elector, Ending, LeaderElection, LossReason};

/// Starts a server on a multi-threaded runtime, and returns it with its client configuration.
fn serve() -> (
    tokio::runtime::Runtime,
    ApiServer,
    ClientConfig,
    steersman_apiserver::Serving,
) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = ApiServer::new();
    let serving = runtime.block_on(server.serve("127.0.0.1:0")).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(file.path()).unwrap();
    let client_config = runtime
        .block_on(ClientConfig::from_kubeconfig(file.path()))
        .unwrap();
    (runtime, server, client_config, serving)
}

fn options() -> LeaderElection {
    LeaderElection::new("demo").namespace("default").timing(
        Duration::from_secs(3),
        Duration::from_secs(2),
        Duration::from_millis(500),
    )
}

/// LEASE-4, LEASE-6: the test blocks this thread and its runtime, which would run the work, after the election.
#[test]
fn a_loss_aborts_the_process_although_the_runtime_of_the_work_is_blocked() {
    let (runtime, server, client_config, _serving) = serve();
    let (abort, aborted) = mpsc::channel();
    let options = options().abort_with(move |overrun| {
        let _ = abort.send(overrun.clone());
    });
    let mut elector = Elector::new(options, &client_config).unwrap();
    elector.start().unwrap();
    let leadership = elector.leadership();
    runtime.block_on(leadership.elected());
    let hole = server.faults().swallow_everything();
    let overrun = aborted.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(overrun.limit, Duration::from_millis(500));
    let reason = runtime.block_on(leadership.lost());
    assert!(
        matches!(reason, LossReason::RenewDeadline { .. }),
        "{reason:?}"
    );
    drop(hole);
}

#[test]
fn an_elector_on_its_own_thread_leads_and_releases() {
    let (runtime, server, client_config, _serving) = serve();
    let mut elector = Elector::new(options(), &client_config).unwrap();
    elector.start().unwrap();
    runtime.block_on(elector.leadership().elected());
    let agents = server.requests().all();
    assert!(
        agents
            .iter()
            .all(|request| request.user_agent.ends_with("/leader-election"))
    );
    assert_eq!(runtime.block_on(elector.release()), Ending::Released);
}

/// LEASE-1, LEASE-5: the hook blocks the thread of the elector after the election.
#[test]
fn a_blocked_elector_delays_neither_the_loss_nor_the_end_of_a_release() {
    let (runtime, _server, client_config, _serving) = serve();
    let (unblock, blocked) = mpsc::channel::<()>();
    let blocked = parking_lot::Mutex::new(blocked);
    let options = options().abort_with(|_| {}).on_change(move |change| {
        if matches!(change, ElectionChange::Elected { .. }) {
            let _ = blocked.lock().recv();
        }
    });
    let mut elector = Elector::new(options, &client_config).unwrap();
    elector.start().unwrap();
    let leadership = elector.leadership();
    runtime.block_on(leadership.elected());
    let reason = runtime.block_on(leadership.lost());
    assert!(
        matches!(reason, LossReason::ElectorBlocked { .. }),
        "{reason:?}"
    );
    assert!(!leadership.is_leader());
    assert_eq!(runtime.block_on(elector.release()), Ending::Kept);
    drop(unblock);
}

/// LEASE-4: the hook blocks the thread of the elector, while the work on this thread goes on.
#[test]
fn a_blocked_elector_does_not_prevent_the_abort() {
    let (runtime, _server, client_config, _serving) = serve();
    let (unblock, blocked) = mpsc::channel::<()>();
    let blocked = parking_lot::Mutex::new(blocked);
    let (abort, aborted) = mpsc::channel();
    let options = options()
        .on_change(move |change| {
            if matches!(change, ElectionChange::Elected { .. }) {
                let _ = blocked.lock().recv();
            }
        })
        .abort_with(move |overrun| {
            let _ = abort.send(overrun.clone());
        });
    let mut elector = Elector::new(options, &client_config).unwrap();
    elector.start().unwrap();
    runtime.block_on(elector.leadership().elected());
    let overrun = aborted.recv_timeout(Duration::from_secs(60)).unwrap();
    assert_eq!(overrun.limit, Duration::from_millis(500));
    drop(unblock);
}
