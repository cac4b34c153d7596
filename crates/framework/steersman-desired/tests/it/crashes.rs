//! Scenario 30: when a program crashes at any of its writes, the next program finishes the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use steersman_cache::CacheOptions;
use steersman_client::{ClientOptions, Write, WriteObserver, WriteOutcome};
use steersman_desired::{Child, DesiredSet, SetOutcome};
use tokio_util::sync::CancellationToken;

use crate::world::{World, config, deployment, service};

/// Ends a program after this number of writes.
struct Crash {
    writes_left: AtomicUsize,
    crashed: CancellationToken,
}

impl WriteObserver for Crash {
    fn ended(&self, _: &Write, _: &WriteOutcome<'_>) {
        if self.writes_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.crashed.cancel();
        }
    }
}

fn before(world: &World) -> DesiredSet {
    let mut set = world.set();
    for name in ["a", "b", "c"] {
        set.add(Child::of(&config(name)));
    }
    set.add(Child::of(&service("web")));
    set
}

fn after(world: &World) -> DesiredSet {
    let mut set = world.set();
    let settings = set.add(Child::of(&config("c")));
    set.add(Child::of(&config("d")).after(settings));
    set.add(Child::of(&deployment("web")).after(settings));
    set
}

#[tokio::test(start_paused = true)]
async fn a_set_converges_after_a_crash_at_any_write() {
    // The last round has no crash.
    for writes in 1..10 {
        let mut world = World::new().await;
        world.client.create(&config("free")).await.unwrap();
        let others = world.children("configmaps");
        assert!(others.is_empty());
        for make in [before as fn(&World) -> DesiredSet, after] {
            let crash = Arc::new(Crash {
                writes_left: AtomicUsize::new(writes),
                crashed: CancellationToken::new(),
            });
            let options =
                ClientOptions::new().observe_writes(Arc::clone(&crash) as Arc<dyn WriteObserver>);
            world = restarted(world, options).await;
            let run = world.until(make, SetOutcome::is_ready);
            tokio::select! {
                biased;
                () = crash.crashed.cancelled() => {}
                _ = run => {}
            }
            world = restarted(world, ClientOptions::new()).await;
            let is_settled = |outcome: &SetOutcome| {
                outcome.is_ready() && outcome.children().iter().all(|child| !child.pruned)
            };
            world.until(make, is_settled).await;
        }
        assert_eq!(world.children("configmaps"), ["c", "d"], "{writes}");
        assert_eq!(world.children("services"), Vec::<String>::new(), "{writes}");
        assert_eq!(world.children("deployments.apps"), ["web"], "{writes}");
        let free = world.get("configmaps", "free").unwrap();
        let free: ConfigMap = serde_json::from_value(free).unwrap();
        assert_eq!(free.metadata.owner_references, None, "{writes}");
    }
}

/// Ends the program of a world, and starts another program with the same server.
async fn restarted(world: World, options: ClientOptions) -> World {
    let (server, owner) = (world.server.clone(), world.owner.clone());
    drop(world);
    World::over(server, owner, CacheOptions::new(), options).await
}
