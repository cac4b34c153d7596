//! Tests of the objects that remain on a server after measurements with all kinds of ends.

use std::time::Duration;

use steersman_apiserver::ApiServer;
use steersman_apiserver::faults::{Answer, Effect, FaultGuard, FaultSpec, RequestRecord, Verb};
use tokio::sync::mpsc;

use super::{Cluster, WIDGETS};
use crate::process::BenchResult;
use crate::samples::Sample;
use crate::world::Worlds;

fn cluster(server: &ApiServer) -> Cluster {
    Cluster {
        kubeconfig: "nowhere".into(),
        client: kube_client::Client::new(server.service(), "default"),
        left: Vec::new(),
        defined: false,
    }
}

/// Returns the created namespaces that are not terminating.
fn namespaces(server: &ApiServer) -> Vec<String> {
    let all = server.list("namespaces", "");
    let stays = all
        .iter()
        .filter(|one| one["metadata"]["deletionTimestamp"].is_null());
    let names = stays.filter_map(|one| one["metadata"]["name"].as_str());
    let made = names.filter(|name| name.starts_with("steersman-bench-"));
    made.map(ToOwned::to_owned).collect()
}

fn pods(server: &ApiServer) -> usize {
    server.list("pods", "").len()
}

#[tokio::test]
async fn undeletable_objects_are_named_and_the_rest_is_removed() {
    let server = ApiServer::new();
    let mut cluster = cluster(&server);
    let mut names = Vec::new();
    for of in [Sample::Pod, Sample::Widget, Sample::Pod] {
        let mut namespace = cluster.namespace(of).await.unwrap();
        namespace.grow(3).await.unwrap();
        names.push(namespace.name().to_owned());
    }
    assert_eq!((namespaces(&server).len(), pods(&server)), (3, 6));
    let stuck = names[0].clone();
    let fault = server.faults().answer_matching(
        move |request| {
            request.does(Verb::Delete)
                && request.is_for("namespaces")
                && request.name.as_ref() == Some(&stuck)
        },
        Answer::code(500),
    );
    let left = cluster.end().await.unwrap_err().to_string();
    assert!(
        left.contains(&names[0]) && !left.contains(&names[1]) && !left.contains(&names[2]),
        "{left}"
    );
    assert!(!left.contains(WIDGETS), "{left}");
    assert_eq!(namespaces(&server), names[..1]);
    assert_eq!(pods(&server), 0);
    assert!(
        server
            .get("customresourcedefinitions", "", WIDGETS)
            .is_none()
    );
    drop(fault);
    cluster.end().await.unwrap();
    assert_eq!(namespaces(&server), [""; 0]);
}

#[tokio::test]
async fn a_removal_is_retried_after_an_overload() {
    let server = ApiServer::new();
    let mut cluster = cluster(&server);
    let mut namespace = cluster.namespace(Sample::Pod).await.unwrap();
    namespace.grow(3).await.unwrap();
    let busy = Answer::code(429).times(1);
    let _busy = server.faults().answer(Verb::DeleteCollection, "pods", busy);
    cluster.end().await.unwrap();
    assert_eq!((namespaces(&server).len(), pods(&server)), (0, 0));
}

/// Responds to delete requests for more than one page like a server that exceeded its time limit.
fn large_deletes_time_out(server: &ApiServer) -> FaultGuard {
    server.faults().answer_matching(
        |request| {
            let limit = request
                .parameter("limit")
                .and_then(|text| text.parse().ok());
            request.does(Verb::DeleteCollection) && limit.is_none_or(|limit: usize| limit > 500)
        },
        Answer::code(504),
    )
}

#[tokio::test]
async fn objects_are_deleted_in_pages() {
    let server = ApiServer::new();
    let timeouts = large_deletes_time_out(&server);
    let mut cluster = cluster(&server);
    let mut namespace = cluster.namespace(Sample::ConfigMap).await.unwrap();
    namespace.grow(1_200).await.unwrap();
    cluster.end().await.unwrap();
    assert_eq!(timeouts.hits(), 0);
    let asked = |request: &RequestRecord| request.does(Verb::DeleteCollection);
    assert_eq!(server.requests().count(asked), 3);
    assert_eq!(server.list("configmaps", namespace.name()).len(), 0);
    assert_eq!(namespaces(&server), [""; 0]);
}

/// A request that is never answered is aborted after a minute, and the removal is tried again.
#[tokio::test(start_paused = true)]
async fn a_dead_delete_is_aborted_and_tried_again() {
    let server = ApiServer::new();
    let mut cluster = cluster(&server);
    let mut namespace = cluster.namespace(Sample::ConfigMap).await.unwrap();
    namespace.grow(3).await.unwrap();
    let dead = FaultSpec::new(Effect::Swallow).verb(Verb::DeleteCollection);
    let once = server.faults().add(dead.times(1)).unwrap();
    // Without the limit a failure would be a hang.
    let ended = tokio::time::timeout(Duration::from_secs(3600), cluster.end()).await;
    ended.unwrap().unwrap();
    assert_eq!(once.hits(), 1);
    assert_eq!(namespaces(&server), [""; 0]);
    assert_eq!(server.list("configmaps", namespace.name()).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_a_delete_is_named_with_what_remains() {
    for (effect, reason) in [
        (Effect::Swallow, "no answer within 60 s"),
        (Effect::Cut { commit: false }, "DELETE"),
    ] {
        let server = ApiServer::new();
        let mut cluster = cluster(&server);
        let mut namespace = cluster.namespace(Sample::ConfigMap).await.unwrap();
        namespace.grow(3).await.unwrap();
        let everything = [Verb::DeleteCollection, Verb::Delete];
        let _dead = everything.map(|verb| {
            let spec = FaultSpec::new(effect.clone()).verb(verb);
            server.faults().add(spec).unwrap()
        });
        // Without the limit a failure would be a hang.
        let ended = tokio::time::timeout(Duration::from_secs(3600), cluster.end()).await;
        let left = ended.unwrap().unwrap_err().to_string();
        let named = format!("left on the server: namespace {}", namespace.name());
        assert!(left.starts_with(&named) && left.contains(reason), "{left}");
        assert!(left.contains("DELETE /api/v1/namespaces/"), "{left}");
        assert_eq!(namespaces(&server), [namespace.name()]);
    }
}

#[tokio::test(start_paused = true)]
async fn namespaces_are_finalized_on_a_server_without_controllers() {
    let server = ApiServer::builder().play_controllers(false).build();
    let mut cluster = cluster(&server);
    for of in [Sample::Pod, Sample::Widget] {
        cluster.namespace(of).await.unwrap().grow(3).await.unwrap();
    }
    cluster.end().await.unwrap();
    let names = server.list("namespaces", "");
    let made = names.iter().filter(|one| {
        one["metadata"]["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("steersman-bench-"))
    });
    assert_eq!(made.count(), 0);
    assert_eq!(server.list("serviceaccounts", "").len(), 0);
}

/// Passes a world to a measurement with this end, and returns its error.
async fn measure(
    server: &ApiServer,
    stopped: bool,
    ends: impl AsyncFnOnce() -> BenchResult<u32>,
) -> BenchResult<u32> {
    let (stop, mut stops) = mpsc::unbounded_channel();
    let worlds = Worlds::Foreign(cluster(server));
    let measure = async |worlds: &mut Worlds| {
        worlds.start(Sample::Pod, 3).await?;
        assert_eq!(pods(server), 3);
        if stopped {
            stop.send(())?;
        }
        ends().await
    };
    let said = worlds.lend(&mut stops, measure).await;
    assert_eq!((namespaces(server).len(), pods(server)), (0, 0));
    said
}

#[tokio::test]
async fn no_object_remains_after_any_end_of_a_measurement() {
    let server = ApiServer::new();
    assert_eq!(measure(&server, false, async || Ok(7)).await.unwrap(), 7);
    let failed = measure(&server, false, async || Err("it failed".into())).await;
    assert_eq!(failed.unwrap_err().to_string(), "it failed");
    let panicked = measure(&server, false, async || panic!("on purpose")).await;
    assert_eq!(panicked.unwrap_err().to_string(), "a measurement panicked");
    let stopped = measure(&server, true, async || std::future::pending().await).await;
    assert_eq!(stopped.unwrap_err().to_string(), "interrupted");
}

#[tokio::test]
async fn a_second_interrupt_reports_the_remaining_objects() {
    let server = ApiServer::new();
    let (stop, mut stops) = mpsc::unbounded_channel();
    let faults = server.faults();
    let _slow = faults.delay(Verb::DeleteCollection, "pods", Duration::from_secs(3600));
    let measure = async |worlds: &mut Worlds| -> BenchResult<u32> {
        worlds.start(Sample::Pod, 3).await?;
        stop.send(())?;
        stop.send(())?;
        std::future::pending().await
    };
    let worlds = Worlds::Foreign(cluster(&server));
    let said = worlds.lend(&mut stops, measure).await;
    let said = said.unwrap_err().to_string();
    assert!(
        said.starts_with("interrupted\nleft on the server: namespace"),
        "{said}"
    );
    assert!(said.contains(&namespaces(&server)[0]), "{said}");
}
