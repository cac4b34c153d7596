//! What a replica shows of its membership.

use serde_json::Value;
use steersman_apiserver::faults::{Answer, FaultSpec, Verb};
use steersman_manager::Manager;

use super::{settled, start_replica, until, world};

fn last_error(manager: &Manager) -> Value {
    let shown = manager.diagnostics().section("shards").unwrap();
    shown["lastError"].clone()
}

#[tokio::test(start_paused = true)]
async fn an_error_is_shown_until_its_request_succeeds() {
    let (server, ledger) = world();
    let (a, started) = start_replica(&server, "a", &ledger);
    settled(&[&a]).await;
    assert_eq!(last_error(&a), Value::Null);
    let refused = FaultSpec::from(Answer::code(500))
        .verb(Verb::Watch)
        .resource("leases.coordination.k8s.io");
    let refused = server.faults().add(refused).unwrap();
    server.faults().cut_watches();
    until("the error is shown", async || last_error(&a) != Value::Null).await;
    drop(refused);
    until("the error is gone", async || last_error(&a) == Value::Null).await;
    started.stop().await.unwrap();
}
