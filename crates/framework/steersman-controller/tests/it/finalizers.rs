//! Several finalizers of one controller, and their clean-ups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use steersman_apiserver::faults::Verb;
use steersman_controller::{
    Action, CleanUp, Context, Controller, ControllerError, Error, Finalized, Finalizers,
    Reconciler, reconcile,
};

use crate::sites::Site;
use crate::world::{Record, World, record};

const FIRST: &str = "example.com/first";
const SECOND: &str = "example.com/second";
const FOREIGN: &str = "other.example.com/kept";

/// The planned results of clean-ups, by finalizer; a clean-up without a planned result is done.
#[derive(Clone, Default)]
struct Results(Arc<Mutex<BTreeMap<&'static str, Planned>>>);

#[derive(Clone, Copy)]
enum Planned {
    Fails,
    Waits(Duration),
}

impl Results {
    fn plan(&self, finalizer: &'static str, result: Option<Planned>) {
        let mut planned = self.0.lock();
        match result {
            Some(result) => planned.insert(finalizer, result),
            None => planned.remove(finalizer),
        };
    }

    fn of(&self, finalizer: &str) -> Result<CleanUp, Error> {
        match self.0.lock().get(finalizer) {
            None => Ok(CleanUp::Done),
            Some(Planned::Waits(time)) => Ok(CleanUp::After(*time)),
            Some(Planned::Fails) => Err(Error::msg("the service is away")),
        }
    }
}

fn finalizers(note: &Record, results: &Results) -> Finalizers<Site> {
    let mut finalizers = Finalizers::new();
    for finalizer in [FIRST, SECOND] {
        let (note, results) = (note.clone(), results.clone());
        finalizers = finalizers.add(finalizer, move |_: Arc<Site>, _: Context| {
            note.note(&finalizer);
            std::future::ready(results.of(finalizer))
        });
    }
    finalizers
}

/// Notes `live` for each reconcile of a Site that is not being deleted.
fn reconciler(note: &Record, finalizers: Finalizers<Site>) -> impl Reconciler {
    let (note, finalizers) = (note.clone(), Arc::new(finalizers));
    reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let (note, finalizers) = (note.clone(), Arc::clone(&finalizers));
        async move {
            match finalizers.run(&ctx, site).await {
                Ok(Finalized::Live(site)) => {
                    let present = site.metadata.finalizers.clone().unwrap_or_default();
                    note.note(&format!("live {}", present.join(" ")));
                    Ok(Action::done())
                }
                Ok(Finalized::Leaving(action)) => Ok(action),
                Err(error) => {
                    let finalizer = match error.downcast_ref() {
                        Some(ControllerError::CleanUp { finalizer, .. }) => Some(finalizer),
                        _ => None,
                    };
                    note.note(&format!("failed {finalizer:?}"));
                    Err(error)
                }
            }
        }
    })
}

fn start(world: &mut World, note: &Record, finalizers: Finalizers<Site>) {
    let controller = Controller::builder::<Site>()
        .with_predicates(steersman_controller::predicate::generation_changed())
        .build(reconciler(note, finalizers))
        .unwrap();
    world.start(controller);
}

fn delete(world: &World, name: &str) {
    world
        .server
        .delete("sites.example.com", "default", name)
        .unwrap();
}

fn finalizers_of(world: &World, name: &str) -> Option<Vec<String>> {
    let site = world.server.get("sites.example.com", "default", name)?;
    Some(serde_json::from_value(site["metadata"]["finalizers"].clone()).unwrap_or_default())
}

// CTRL-34
#[tokio::test(start_paused = true)]
async fn clean_ups_run_in_order_and_none_runs_again_after_it_succeeded() {
    let mut world = World::with_sites();
    world.site("shop", &[FOREIGN]);
    let (note, mut runs) = record();
    let results = Results::default();
    let list = finalizers(&note, &results);
    start(&mut world, &note, list);
    let all = format!("live {FOREIGN} {FIRST} {SECOND}");
    assert_eq!(runs.rest().await, [all]);
    let patches = || world.server.requests().count(|r| r.does(Verb::Patch));
    assert_eq!(patches(), 1, "all finalizers are added by one request");

    results.plan(SECOND, Some(Planned::Fails));
    delete(&world, "shop");
    assert_eq!(runs.next().await, FIRST);
    let failed = format!("failed {:?}", Some(SECOND));
    for _ in 0..3 {
        assert_eq!(runs.next().await, SECOND);
        assert_eq!(runs.next().await, failed);
    }
    assert_eq!(finalizers_of(&world, "shop").unwrap(), [FOREIGN, SECOND]);

    results.plan(SECOND, Some(Planned::Waits(Duration::from_secs(7))));
    let (mut name, mut waited_from) = runs.next_at().await;
    while name == failed {
        (name, waited_from) = runs.next_at().await;
    }
    assert_eq!(name, SECOND);
    let (name, at) = runs.next_at().await;
    assert_eq!((&*name, at - waited_from), (SECOND, 7000));
    results.plan(SECOND, None);
    assert_eq!(runs.rest().await, [SECOND]);
    // The finalizer of another controller stays.
    assert_eq!(finalizers_of(&world, "shop").unwrap(), [FOREIGN]);
}

// CTRL-34
#[tokio::test(start_paused = true)]
async fn an_object_that_was_deleted_unseen_is_cleaned_up_and_gets_no_finalizer() {
    let mut world = World::with_sites();
    world.site("shop", &[FIRST]);
    let server = world.server.clone();
    let (note, mut runs) = record();
    let list = Arc::new(finalizers(&note, &Results::default()));
    let begun = note.clone();
    let reconciler = reconcile::of_object(move |site: Arc<Site>, ctx: Context| {
        let (server, list) = (server.clone(), Arc::clone(&list));
        begun.note(&"begun");
        async move {
            // The cache does not see that the object is being deleted.
            server.faults().silence_watches();
            server
                .delete("sites.example.com", "default", "shop")
                .map_err(|status| Error::msg(format!("{status:?}")))?;
            match list.run(&ctx, site).await? {
                Finalized::Live(_) => Err(Error::msg("it is being deleted").terminal()),
                Finalized::Leaving(action) => Ok(action),
            }
        }
    });
    let controller = Controller::builder::<Site>().build(reconciler).unwrap();
    world.start(controller);
    assert_eq!(runs.next().await, "begun");
    // The clean-up runs before a later reconcile, in which the cache has seen the deletion.
    assert_eq!(runs.next().await, FIRST);
    assert!(runs.is_quiet().await);
    assert_eq!(finalizers_of(&world, "shop"), None);
}

#[tokio::test(start_paused = true)]
async fn a_clean_up_that_keeps_failing_is_a_condition_until_it_succeeds() {
    let mut world = World::with_sites();
    world.site("shop", &[FOREIGN]);
    let (note, mut runs) = record();
    let results = Results::default();
    let list = finalizers(&note, &results).report_conditions();
    start(&mut world, &note, list);
    assert!(runs.next().await.starts_with("live"));
    results.plan(FIRST, Some(Planned::Fails));
    let begun = tokio::time::Instant::now();
    delete(&world, "shop");
    while begun.elapsed() < Duration::from_secs(50) {
        assert!(world.conditions("shop").is_empty());
        runs.next().await;
    }
    while begun.elapsed() < Duration::from_secs(3600) {
        runs.next().await;
    }
    let message = format!("{FIRST}: the service is away");
    let expected = [
        format!("Ready=False CleanUpFailed: {message}"),
        format!("Stalled=True CleanUpFailed: {message}"),
    ];
    assert_eq!(world.conditions("shop"), expected);
    let events = world.server.list("events.events.k8s.io", "default");
    assert!(
        events
            .iter()
            .any(|event| event["reason"] == "CleanUpFailed"),
        "{events:?}"
    );

    results.plan(FIRST, None);
    let last = runs.rest().await;
    assert_eq!(last.last().map(String::as_str), Some(SECOND));
    let message = "finalizers of other controllers keep the object";
    let expected = [
        format!("Ready=False CleanedUp: {message}"),
        format!("Reconciling=True CleanedUp: {message}"),
    ];
    assert_eq!(world.conditions("shop"), expected);
    world.change_site("shop", &json!({"metadata": {"finalizers": null}}));
    assert_eq!(finalizers_of(&world, "shop"), None);
}
