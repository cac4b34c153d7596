//! Driver: measures an operator with constantly changing objects: its memory, and whether it
//! observes every final state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use steersman_api::ClientConfig;
use steersman_controller::{Action, Context, Controller, Error, Reconciler, Request};
use steersman_manager::{Manager, Shutdown};
use steersman_object::ObjectKey;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::words::{ClientRole, SteadyTask};
use crate::figures::Figures;
use crate::process::{Actor, BenchResult, memory, progress, send};
use crate::report::{Figure, Spread};
use crate::samples::{NUMBER, Sample};
use crate::server::serve::Order;
use crate::world::Worlds;

const WORKERS: usize = 8;

/// The time limit of a wait without progress.
const QUIET: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct SteadySize {
    objects: u64,
    updates: u32,
    soak_seconds: u32,
    replacements: u32,
    churn_seconds: u32,
    /// The number of seconds after which memory must not grow.
    settled: usize,
}

const FULL: SteadySize = SteadySize {
    objects: 10_000,
    updates: 1_000,
    soak_seconds: 60,
    replacements: 500,
    churn_seconds: 60,
    settled: 10,
};

const QUICK: SteadySize = SteadySize {
    objects: 300,
    updates: 300,
    soak_seconds: 4,
    replacements: 300,
    churn_seconds: 3,
    settled: 1,
};

/// A question to the operator while it runs.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum Question {
    /// The resident memory, in bytes.
    Resident,
    /// The number of objects that were reconciled with this number or a later one, once these are
    /// all objects, or progress stops.
    Caught { from: u64 },
}

/// The newest number observed of each object.
#[derive(Debug, Default)]
struct SeenNumbers {
    numbers: Mutex<HashMap<ObjectKey, u64>>,
    moved: Notify,
}

struct Seeing(Arc<SeenNumbers>);

pub(crate) async fn measure(quick: bool, long: bool) -> BenchResult<Vec<Figure>> {
    let mut size = if quick { QUICK } else { FULL };
    if long {
        size.churn_seconds = 600;
    }
    let mut figures = Figures::shown();
    figures.measure(soak(size)).await?;
    figures.measure(churn(size)).await?;
    Ok(figures.all())
}

async fn soak(size: SteadySize) -> BenchResult<Vec<Figure>> {
    let order = Order::Touch {
        per_second: size.updates,
        seconds: size.soak_seconds,
    };
    let lived = live(size, order, size.soak_seconds).await?;
    let settled = lived
        .resident
        .get(size.settled.saturating_sub(1)..)
        .unwrap_or_default();
    let few = settled.len().min(3);
    let (before, after) = (&settled[..few], &settled[settled.len() - few..]);
    let what = format!(
        "{} updates/s for {} s on {} Pods",
        size.updates, size.soak_seconds, size.objects
    );
    let since = format!("after the first {} s", size.settled);
    Ok(vec![
        growth("steady/soak/growth", &what, &since, grown(before, after))
            .at_most(5.0)
            .guarded(),
        final_states("steady/soak/final", &what, lived.caught, size),
    ])
}

async fn churn(size: SteadySize) -> BenchResult<Vec<Figure>> {
    let order = Order::Replace {
        per_second: size.replacements,
        seconds: size.churn_seconds,
    };
    let lived = live(size, order, size.churn_seconds).await?;
    let replaced = u64::from(size.replacements) * u64::from(size.churn_seconds);
    let what = format!(
        "{} Pods, each replaced {} times in {} s",
        size.objects,
        replaced / size.objects,
        size.churn_seconds
    );
    let few = lived.resident.len().min(3);
    let after = &lived.resident[lived.resident.len() - few..];
    let grown = grown(&[lived.synced], after);
    let mut figures = course(&lived, size.churn_seconds);
    figures.extend([
        growth("steady/churn/growth", &what, "since the first sync", grown)
            .at_most(10.0)
            .guarded(),
        final_states("steady/churn/final", &what, lived.caught, size),
    ]);
    Ok(figures)
}

fn growth(id: &str, what: &str, since: &str, grown: f64) -> Figure {
    let what = format!("{what}: growth of the resident memory {since}");
    Figure::new(id, what, "%", Spread::one(grown))
}

/// Returns the memory over time: after the first sync, and after each tenth of the duration.
fn course(lived: &ChurnFigures, seconds: u32) -> Vec<Figure> {
    const STEPS: u32 = 10;
    let what = "resident memory while all objects are replaced repeatedly";
    let at = |step: u32| {
        let second = seconds * step / STEPS;
        let resident = match second.checked_sub(1) {
            None => Some(&lived.synced),
            Some(before) => lived.resident.get(before as usize),
        };
        let megabytes = Spread::one(*resident? as f64 / 1e6);
        let figure = Figure::new("steady/churn/resident", what, "MB", megabytes);
        Some(figure.at(second.into()))
    };
    (0..=STEPS).filter_map(at).collect()
}

fn final_states(id: &str, what: &str, caught: u64, size: SteadySize) -> Figure {
    let share = 100.0 * caught as f64 / size.objects as f64;
    let what = format!("{what}: share of the objects that were reconciled in their final state");
    Figure::new(id, what, "%", Spread::one(share))
        .more_is_better()
        .at_least(100.0)
        .guarded()
}

/// Returns the growth from the median of `before` to the median of `after`, in per cent.
fn grown(before: &[u64], after: &[u64]) -> f64 {
    let middle = |all: &[u64]| Spread::over(all, |bytes| *bytes as f64).median;
    100.0 * (middle(after) / middle(before) - 1.0)
}

/// The figures of an operator's process while its objects changed.
struct ChurnFigures {
    /// The memory after the first sync, in bytes.
    synced: u64,
    /// The memory once a second and at the end, in bytes.
    resident: Vec<u64>,
    /// The number of objects with an observed final state.
    caught: u64,
}

/// Runs an operator while a server executes an order.
async fn live(size: SteadySize, order: Order, seconds: u32) -> BenchResult<ChurnFigures> {
    let mut world = Worlds::Own.start(Sample::Pod, size.objects).await?;
    let role = ClientRole::Steady(SteadyTask {
        kubeconfig: world.kubeconfig.clone(),
        objects: usize::try_from(size.objects)?,
    });
    let mut client = Actor::client(&role)?;
    let synced: u64 = client.receive().await?;
    progress(format!("{seconds} s of changes"));
    let mut resident = Vec::new();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    // The first tick is immediate.
    tick.tick().await;
    let next: u64 = {
        let ordered = world.order(order);
        let mut ordered = std::pin::pin!(ordered);
        loop {
            tokio::select! {
                next = &mut ordered => break next?,
                _ = tick.tick() => resident.push(client.request(&Question::Resident).await?),
            }
            if resident.len() % 60 == 59 {
                progress(format!("{} of {seconds} s", resident.len()));
            }
        }
    };
    let from = next - size.objects;
    let caught = client.request(&Question::Caught { from }).await?;
    resident.push(client.request(&Question::Resident).await?);
    client.end().await?;
    world.end().await?;
    Ok(ChurnFigures {
        synced,
        resident,
        caught,
    })
}

pub(super) async fn play(asked: SteadyTask) -> BenchResult<()> {
    let client_config = ClientConfig::from_kubeconfig(&asked.kubeconfig).await?;
    let manager = Manager::builder(client_config).build()?;
    let seen = Arc::new(SeenNumbers::default());
    let controller = Controller::builder::<Pod>()
        .max_concurrent_reconciles(WORKERS)
        .build(Seeing(Arc::clone(&seen)))?;
    manager.add_controller(controller)?;
    let cancel = CancellationToken::new();
    let stop = Shutdown::when(cancel.clone().cancelled_owned());
    let running = tokio::spawn(manager.start(stop));
    seen.caught(0, asked.objects).await;
    send(&memory()?.0)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        match serde_json::from_str(&line)? {
            Question::Resident => send(&memory()?.0)?,
            Question::Caught { from } => send(&seen.caught(from, asked.objects).await)?,
        }
    }
    cancel.cancel();
    Ok(running.await??)
}

impl SeenNumbers {
    /// Returns the number of objects with this number or a later one, as soon as these are all wanted objects and no
    /// others exist; without progress the current number, minus unwanted objects.
    async fn caught(&self, from: u64, wanted: usize) -> usize {
        loop {
            let moved = tokio::time::timeout(QUIET, self.moved.notified()).await;
            let numbers = self.numbers.lock();
            // Checked only when all objects may be current, and not at each step.
            if numbers.len() == wanted || moved.is_err() {
                let current = numbers.values().filter(|number| **number >= from).count();
                if current == wanted || moved.is_err() {
                    // An object that should be deleted is no final state either.
                    return current.saturating_sub(numbers.len() - current);
                }
            }
        }
    }
}

impl Reconciler for Seeing {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Action, Error> {
        let pod = context.client().get_opt::<Pod>(&request.key).await?;
        let number = pod.as_ref().and_then(|pod| {
            let annotations = pod.metadata.annotations.as_ref()?;
            annotations.get(NUMBER)?.parse().ok()
        });
        let mut numbers = self.0.numbers.lock();
        match number {
            Some(number) => numbers.insert(request.key, number),
            None => numbers.remove(&request.key),
        };
        drop(numbers);
        self.0.moved.notify_one();
        Ok(Action::done())
    }
}
