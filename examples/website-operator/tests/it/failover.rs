//! A failover of the program: three processes with one API server over HTTPS, of which the test kills the leader.

use std::path::Path;

use example_program::once::is_ready;
use serde_json::json;
use steersman::kube_core::CustomResourceExt as _;
use steersman_testenv::apiserver::ApiServer;
use steersman_testenv::assert::ConditionError;
use steersman_testenv::eventually;
use website_operator::website::Website;

use crate::binary::{configured, site};
use crate::replica::{QUICK_ELECTION, Replica};

fn start(home: &Path, name: &str) -> Replica {
    let arguments = [
        "--leader-election-namespace=default",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    Replica::start(home, name, &[&QUICK_ELECTION[..], &arguments].concat())
}

/// Creates a website with its pages, and waits until it is ready.
async fn serve_site(server: &ApiServer, name: &str, replicas: &[Replica]) {
    let pages = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"}, "data": {"index.html": "hi"},
    });
    server.create(pages).unwrap();
    server.create(site(name, name)).unwrap();
    let ready = eventually("the website is ready", || async move {
        let site = server
            .get("websites.web.example.com", "default", name)
            .unwrap();
        let site: Website = serde_json::from_value(site).unwrap();
        match is_ready(&site) {
            true => Ok(()),
            false => Err(format!("{:?}", site.status)),
        }
    });
    ready.await.unwrap_or_else(|error| fail(&error, replicas));
}

/// Waits until one of the replicas holds the Lease, and returns its index and its identity.
async fn leader(server: &ApiServer, replicas: &[Replica]) -> (usize, String) {
    let elected = eventually("a replica leads", || async move {
        let lease = server.get("leases.coordination.k8s.io", "default", "website-operator");
        let lease = lease.ok_or("there is no Lease")?;
        let identity = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        let leads = |replica: &Replica| !identity.is_empty() && replica.leads_as(identity);
        let at = replicas
            .iter()
            .position(leads)
            .ok_or_else(|| lease.to_string())?;
        Ok((at, identity.to_owned()))
    });
    elected.await.unwrap_or_else(|error| fail(&error, replicas))
}

/// Fails the test, and shows the logs of the replicas.
fn fail(error: &ConditionError, replicas: &[Replica]) -> ! {
    let logs: Vec<String> = replicas.iter().map(Replica::log).collect();
    panic!("{error}\n{}", logs.join("\n"));
}

/// The leases are of 3 s, 2 s and 0.5 s.
#[tokio::test]
async fn a_standby_serves_new_websites_after_the_leader_was_killed() {
    let (env, home) = configured().await;
    let server = env.server().unwrap();
    let definition = serde_json::to_value(Website::crd()).unwrap();
    server.install_crd(definition).unwrap();
    let names = ["one", "two", "three"];
    let mut replicas: Vec<Replica> = names.map(|name| start(home.path(), name)).into();

    let (at, first) = leader(server, &replicas).await;
    serve_site(server, "before", &replicas).await;

    let mut killed = replicas.remove(at);
    killed.kill().await;

    serve_site(server, "after", &replicas).await;
    let (_, second) = leader(server, &replicas).await;
    assert_ne!(first, second);
}
