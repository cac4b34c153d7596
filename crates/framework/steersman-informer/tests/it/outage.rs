//! Outages: the requests of waiting informers, and the time until all have recovered.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::ClientConfig;
use steersman_apiserver::faults::{Answer, Restart, Verb};
use steersman_apiserver::{ApiServer, History};
use steersman_informer::{InformerOptions, InformerState, Reason, ServerHealth};
use steersman_object::Kind;

use super::world::{MAPS, World, delete, put, server, take};

const INFORMERS: usize = 12;
/// The time after the server's return within which all informers have recovered.
const BACK: Duration = Duration::from_secs(5);

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Starts several informers that share one connection, and waits until each has synced.
async fn informers(server: &ApiServer, streaming: bool) -> Vec<World<ConfigMap>> {
    let client_config = ClientConfig::in_process(server.service(), "default");
    let health = ServerHealth::new(3);
    let worlds: Vec<_> = (0..INFORMERS)
        .map(|number| {
            let options = InformerOptions::new()
                .seed(number as u64)
                .watch_list(streaming)
                .health(health.clone());
            World::over(&client_config, server, Kind::of::<ConfigMap>(), options)
        })
        .collect();
    for world in &worlds {
        world.informer.wait_for_sync().await.unwrap();
    }
    // After this time the watches count as healthy.
    tokio::time::sleep(seconds(20)).await;
    worlds
}

/// Restarts the server, and returns the number of requests until it has returned.
async fn restart(server: &ApiServer, restart: Restart, time: Duration) -> usize {
    server.requests().clear();
    server.restart(restart);
    tokio::time::sleep(seconds(1)).await;
    delete(server, "a");
    put(server, "b", "2");
    put(server, "c", "1");
    tokio::time::sleep(time - seconds(1)).await;
    server.requests().count(|_| true)
}

/// Returns whether all informers equal the server within this time after its return.
async fn are_back(worlds: &[World<ConfigMap>], within: Duration) -> bool {
    let all = async {
        for world in worlds {
            world.converged(MAPS).await;
        }
    };
    tokio::time::timeout(within, all).await.is_ok()
}

// REFL-9
#[tokio::test(start_paused = true)]
async fn refl_9_after_a_restart_all_informers_recover_within_five_seconds() {
    let restarts = [
        (8, 1, 1),
        (16, 2, 2),
        (9, 0, 3),
        (3, 6, 0),
        (0, 0, 8),
        (60, 5, 5),
    ];
    for streaming in [true, false] {
        for history in [History::Lost, History::Kept] {
            for (away, installing, initializing) in restarts {
                let server = server();
                put(&server, "a", "1");
                put(&server, "b", "1");
                let worlds = informers(&server, streaming).await;
                let time = seconds(away + installing + initializing);
                let asked = Restart::new(history)
                    .away(seconds(away))
                    .installing(seconds(installing))
                    .initializing(seconds(initializing));
                let asked = restart(&server, asked, time).await;
                // While storages are initialized, each informer repeats its request; otherwise one informer checks the
                // server's readiness.
                let looks = if initializing > 0 {
                    3 + initializing
                } else {
                    2
                };
                let most = looks * INFORMERS as u64 + time.as_secs() * 3 / 2;
                assert!(
                    asked as u64 <= most,
                    "{asked} requests in {time:?}, of {most}"
                );
                let back = are_back(&worlds, BACK).await;
                assert!(back, "{away}, {installing}, {initializing}, {history:?}");
                if history == History::Kept {
                    // REFL-8: the server kept its resource versions, so no list follows.
                    let log = server.requests();
                    assert_eq!((log.lists(MAPS), log.watch_lists(MAPS)), (0, 0));
                }
            }
        }
    }
}

/// Behind a load balancer, another server may answer the health endpoint.
#[tokio::test(start_paused = true)]
async fn refl_9_an_outage_with_a_healthy_health_endpoint_is_an_outage_too() {
    for code in [502, 503, 504] {
        let server = server();
        put(&server, "a", "1");
        put(&server, "b", "1");
        let worlds = informers(&server, true).await;
        let fault = server.faults().answer(None, "*", Answer::code(code));
        restart(&server, Restart::new(History::Lost), seconds(16)).await;
        drop(fault);
        server.compact();
        assert!(are_back(&worlds, BACK).await, "{code}");
    }
}

// REFL-9
#[tokio::test(start_paused = true)]
async fn refl_9_a_kind_that_fails_alone_neither_hurries_nor_slows_others() {
    for code in [403, 404, 500, 503] {
        let server = server();
        put(&server, "a", "1");
        let client_config = ClientConfig::in_process(server.service(), "default");
        let health = ServerHealth::new(3);
        let options = || InformerOptions::new().seed(7).health(health.clone());
        let fails = server.faults().answer(None, "secrets", Answer::code(code));
        let kind = Kind::of::<k8s_openapi::api::core::v1::Secret>();
        let alone: World<k8s_openapi::api::core::v1::Secret> =
            World::over(&client_config, &server, kind, options());
        let maps: World<ConfigMap> =
            World::over(&client_config, &server, Kind::of::<ConfigMap>(), options());
        maps.informer.wait_for_sync().await.unwrap();
        let start = tokio::time::Instant::now();
        for round in 0..200 {
            // Watches that end now and then succeed soon after.
            tokio::time::sleep(seconds(3)).await;
            server.faults().cut_watches_of(MAPS);
            put(&server, "a", &format!("{round}x"));
            let at = tokio::time::Instant::now();
            maps.converged(MAPS).await;
            assert!(at.elapsed() <= seconds(1), "{code}");
        }
        assert!(start.elapsed() >= seconds(600));
        assert!(!alone.informer.has_synced());
        let hits = fails.hits();
        // For a minute at least three seconds apart, then at most half a minute apart.
        assert!((20..60).contains(&hits), "{hits} requests of {code}");
    }
}

// REFL-9
#[tokio::test(start_paused = true)]
async fn refl_9_concurrent_lists_after_an_outage_are_bounded() {
    let server = server();
    put(&server, "a", "1");
    put(&server, "b", "1");
    let worlds = informers(&server, false).await;
    let slow = server.faults().delay(Verb::List, MAPS, seconds(1));
    let asked = Restart::new(History::Lost).away(seconds(10));
    restart(&server, asked, seconds(10)).await;
    let mut most = 0;
    while !are_back(&worlds, Duration::from_millis(50)).await {
        let open = |record: &steersman_apiserver::faults::RequestRecord| {
            record.does(Verb::List) && record.is_for(MAPS) && record.status.is_none()
        };
        most = most.max(server.requests().count(open));
    }
    assert_eq!(most, 3);
    drop(slow);
}

#[tokio::test(start_paused = true)]
async fn a_storage_that_is_reinitialized_degrades_the_kind_as_starting() {
    let server = server();
    put(&server, "a", "1");
    let starting = Answer::code(429)
        .message("storage is (re)initializing")
        .retry_after(1);
    let starting = server.faults().answer(None, MAPS, starting);
    let world = World::of_maps(&server, InformerOptions::new().seed(7));
    tokio::time::sleep(seconds(20)).await;
    let InformerState::Degraded {
        reason, message, ..
    } = world.informer.state()
    else {
        panic!("{}", world.informer.state());
    };
    assert_eq!(reason, Reason::Starting);
    assert!(message.contains("the server is starting"), "{message}");
    drop(starting);
    assert!(are_back(&[world], BACK).await);
}

/// A delete during an outage, as seen over sockets and TLS in real time.
#[tokio::test]
async fn over_https_a_delete_during_an_outage_is_delivered_after_it() {
    let server = server();
    put(&server, "a", "1");
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    serving.write_kubeconfig(file.path()).unwrap();
    let client_config = ClientConfig::from_kubeconfig(file.path()).await.unwrap();
    let health = ServerHealth::new(1);
    let worlds = [1, 2, 3].map(|seed| -> World<ConfigMap> {
        let options = InformerOptions::new().seed(seed).health(health.clone());
        World::over(&client_config, &server, Kind::of::<ConfigMap>(), options)
    });
    let mut seen = worlds.each_ref().map(|world| world.informer.subscribe());
    for seen in &mut seen {
        assert_eq!(take(seen, 2).await, ["+a", "synced"]);
    }
    let phase = Duration::from_millis(300);
    let restart = Restart::new(History::Lost)
        .away(Duration::from_millis(1500))
        .installing(phase)
        .initializing(phase);
    server.restart(restart);
    delete(&server, "a");
    for seen in &mut seen {
        // The server lost its history, including the delete event.
        assert_eq!(take(seen, 1).await, ["-a?"]);
    }
    serving.stop().await;
}
