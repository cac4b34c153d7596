//! Each run of a key reads the writes of its previous run, even if the cache is stale.

use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use steersman_api::kube_client::core::ObjectMeta;
use steersman_cache::ListOptions;
use steersman_client::RequestId;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request, reconcile};
use steersman_object::Object as _;

use crate::world::{Record, World, record};

/// Records whether the client of a reconcile works on behalf of the reconciled request.
struct Behalf(Record);

impl Reconciler for Behalf {
    async fn reconcile(&self, ctx: &Context, request: Request) -> Result<Action, Error> {
        let behalf = RequestId::new(ctx.controller(), request.clone());
        let right = ctx.client().request() == Some(&behalf);
        self.0
            .note(&format!("{right} {} {request}", ctx.reconcile_id()));
        Ok(Action::done())
    }
}

fn child() -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            generate_name: Some("child-".to_owned()),
            namespace: Some("default".to_owned()),
            labels: Some([("role".to_owned(), "child".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

// RYOW-1: a reconcile creates a child and returns. The run right after it lists the children and finds that
// child, or the one that replaced it.
#[tokio::test(start_paused = true)]
async fn the_run_after_a_create_sees_the_child() {
    let mut world = World::new();
    let server = world.server.clone();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, _: Request| {
        let (note, server) = (note.clone(), server.clone());
        async move {
            let client = ctx.client();
            let selected = ListOptions::new().labels("role=child".parse().map_err(Error::msg)?);
            let children = client.list::<ConfigMap>(&selected).await?;
            note.note(&children.len());
            match children.as_slice() {
                [] => {
                    server.faults().silence_watches_of("configmaps");
                    let hears = server.clone();
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_secs(2)).await;
                        hears.faults().resume_watches();
                    });
                    let first = client.create(&child()).await?;
                    // The child is deleted and made again with another uid.
                    client.delete(&first).await?;
                    client.create(&child()).await?;
                    Ok(Action::requeue_after(Duration::from_millis(1)))
                }
                [one] => {
                    assert!(!one.uid_str().is_empty());
                    Ok::<_, Error>(Action::done())
                }
                _ => Err(Error::msg("two children")),
            }
        }
    });
    let controller = Controller::builder::<Deployment>()
        .build(reconciler)
        .unwrap();
    world.cache.informer::<ConfigMap>().unwrap();
    world.start(controller);
    world.cache.wait_for_sync().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.deploy("web");
    assert_eq!(runs.next().await, "0");
    assert_eq!(runs.next().await, "1", "not none, and not two");
    assert!(runs.rest().await.is_empty());
}

// A reconcile patches the status after a user has changed the spec, which the cache has not seen. The user's change is
// reconciled, because no event counts as the controller's own.
#[tokio::test(start_paused = true)]
async fn a_users_change_before_the_controllers_own_write_is_reconciled() {
    let mut world = World::new();
    world.deploy("web");
    let server = world.server.clone();
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let (note, server) = (note.clone(), server.clone());
        async move {
            let site = ctx.client().get::<Deployment>(&request.key).await?;
            let replicas = site.spec.as_ref().and_then(|spec| spec.replicas);
            note.note(&replicas.unwrap_or_default());
            if replicas != Some(5) {
                let patch = serde_json::json!({"spec": {"replicas": 5}});
                let patched = server.merge_patch("deployments.apps", "default", "web", &patch);
                patched.map_err(|status| Error::msg(format!("{status:?}")))?;
                let status = serde_json::json!({"status": {"observedGeneration": 1}});
                let status = steersman_api::Patch::Merge(status);
                let own = ctx.client().subresource::<Deployment>("status");
                own.patch::<Deployment>(&request.key, &status).await?;
            }
            Ok::<_, Error>(Action::done())
        }
    });
    let controller = Controller::builder::<Deployment>()
        .sole_status_writer()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    let first = runs.next().await;
    assert_ne!(first, "5");
    assert_eq!(runs.next().await, "5");
}

// Scenario 28, RYOW-1, CTRL-4: the answer to a write without effect has the current version, which stems from
// the change of another client. The key reads that change and reconciles it.
#[tokio::test(start_paused = true)]
async fn a_write_without_effect_hides_no_change_of_another_client() {
    for how in 0..3 {
        let mut world = World::new();
        world.deploy("web");
        let server = world.server.clone();
        let (note, mut runs) = record();
        let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
            let (note, server) = (note.clone(), server.clone());
            async move {
                let client = ctx.client();
                let replicas = |site: &Deployment| site.spec.as_ref().and_then(|s| s.replicas);
                let site = client.get::<Deployment>(&request.key).await?;
                note.note(&replicas(&site).unwrap_or_default());
                if replicas(&site) == Some(5) {
                    return Ok::<_, Error>(Action::done());
                }
                // The cache receives no event of the following change of the user.
                server.faults().silence_watches_of("deployments");
                let patch = serde_json::json!({"spec": {"replicas": 5}});
                let patched = server.merge_patch("deployments.apps", "default", "web", &patch);
                patched.map_err(|status| Error::msg(format!("{status:?}")))?;
                let current = server
                    .get("deployments.apps", "default", "web")
                    .unwrap_or_default();
                let nothing = steersman_api::Patch::Merge(serde_json::json!({}));
                let answered = match how {
                    0 => client.patch::<Deployment>(&request.key, &nothing).await?,
                    1 => {
                        let status = client.subresource::<Deployment>("status");
                        status.patch::<Deployment>(&request.key, &nothing).await?
                    }
                    _ => {
                        let now = client.live().get::<Deployment>(&request.key).await?;
                        client.update(&now).await?
                    }
                };
                let version = answered.metadata.resource_version.unwrap_or_default();
                assert_eq!(
                    current["metadata"]["resourceVersion"], *version,
                    "nothing changed"
                );
                let hears = server.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    hears.faults().resume_watches();
                });
                let read = client.get::<Deployment>(&request.key).await?;
                note.note(&format!("then {}", replicas(&read).unwrap_or_default()));
                Ok(Action::done())
            }
        });
        let controller = Controller::builder::<Deployment>()
            .sole_status_writer()
            .build(reconciler)
            .unwrap();
        world.start(controller);
        world.cache.wait_for_sync().await.unwrap();
        assert_eq!(runs.next().await, "1", "{how}");
        assert_eq!(runs.next().await, "then 5", "{how}");
        assert_eq!(
            runs.next().await,
            "5",
            "{how}: the user's change is reconciled"
        );
    }
}

// CTRL-4: a relist delivers the controller's write and the user's change as one update while the request is in backoff.
// The update does not count as the controller's own.
#[tokio::test(start_paused = true)]
async fn after_a_relist_a_users_change_does_not_count_as_the_controllers_own() {
    let mut world = World::new();
    world.deploy("web");
    let (note, mut runs) = record();
    let reconciler = reconcile::from_fn(move |ctx: Context, request: Request| {
        let note = note.clone();
        async move {
            let site = ctx.client().get::<Deployment>(&request.key).await?;
            let replicas = site.spec.as_ref().and_then(|spec| spec.replicas);
            note.note(&replicas.unwrap_or_default());
            match replicas {
                Some(5) => Ok(Action::done()),
                _ => Err(Error::msg("not yet")),
            }
        }
    });
    let controller = Controller::builder::<Deployment>()
        .sole_status_writer()
        .build(reconciler)
        .unwrap();
    world.start(controller);
    // The 17th retry waits more than five minutes.
    for _ in 0..17 {
        assert_ne!(runs.next().await, "5");
    }
    let (_, before) = runs.next_at().await;
    world.server.faults().silence_watches_of("deployments");
    world.scale("web", 5);
    let status = serde_json::json!({"status": {"observedGeneration": 1}});
    let resource = "deployments.apps/status";
    let patched = world
        .server
        .merge_patch(resource, "default", "web", &status);
    patched.unwrap();
    world.server.compact();
    world.server.faults().cut_watches();
    let (replicas, at) = runs.next_at().await;
    assert_eq!(replicas, "5");
    assert!(at - before < 60_000, "it waited {} ms", at - before);
}

// RYOW-1
#[tokio::test(start_paused = true)]
async fn the_client_of_a_worker_works_on_behalf_of_the_present_request() {
    let mut world = World::new();
    world.deploy("api");
    world.deploy("web");
    let (note, mut runs) = record();
    let controller = Controller::builder::<Deployment>()
        .build(Behalf(note))
        .unwrap();
    world.start(controller);
    assert_eq!(
        runs.rest().await,
        ["true 1 default/api", "true 2 default/web"]
    );
}
