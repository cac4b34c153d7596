//! Driver: measures sync, memory and reads for growing numbers of objects.

use super::sync::in_turns;
use super::words::MeasuredCache::{Defaults, Json, KubeRuntime};
use super::words::{START_TO_SYNCED, Synced};
use crate::fit::{Fit, Point, of_each, of_one_more};
use crate::process::{BenchResult, print_result, progress};
use crate::report::{Figure, IN_JSON, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::world::{World, Worlds};

#[derive(Debug, Clone, Copy)]
struct ScalingSize {
    /// The numbers of objects, in ascending order.
    objects: &'static [u64],
    runs: u32,
    /// Larger numbers of objects are measured once.
    often: u64,
    /// Larger numbers of objects are not measured with kube-runtime, which keeps all of them decoded.
    together: u64,
    /// The number of objects that fills the budget; smaller numbers measure the budget itself.
    /// `None` if it is never full.
    full: Option<u64>,
    /// The number of objects that is the base of the cost ratio.
    from: u64,
}

const FULL: ScalingSize = ScalingSize {
    objects: &[
        1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    ],
    runs: 5,
    often: 50_000,
    together: 50_000,
    full: Some(2_000),
    from: 10_000,
};

const QUICK: ScalingSize = ScalingSize {
    objects: &[100, 200, 500, 1_000],
    runs: 1,
    often: 500,
    together: 500,
    full: None,
    from: 200,
};

/// A figure that is measured at each number of objects.
#[derive(Debug, Clone, Copy)]
struct Scaled {
    id: &'static str,
    what: &'static str,
    unit: &'static str,
    of: fn(&Synced) -> f64,
}

const SECONDS: Scaled = Scaled {
    id: "scaling/seconds",
    what: START_TO_SYNCED,
    unit: "s",
    of: |one| one.seconds,
};

const CPU: Scaled = Scaled {
    id: "scaling/cpu",
    what: "processor time of the client from a cold start to one second after the sync",
    unit: "s",
    of: |one| one.cpu,
};

const RESIDENT: Scaled = Scaled {
    id: "scaling/resident",
    what: "resident memory after each object was read once",
    unit: "MB",
    of: |one| one.read as f64 / 1e6,
};

const GET: Scaled = Scaled {
    id: "scaling/get",
    what: "time per read by key, 1000 keys in turn",
    unit: "ns",
    of: |one| one.spread_ns,
};

/// The runs with one number of objects.
struct ScalingStep {
    objects: u64,
    own: Vec<Synced>,
    json: Vec<Synced>,
    peer: Vec<Synced>,
}

/// Runs all measurements on one server that grows.
pub(crate) async fn measure(worlds: &mut Worlds, quick: bool) -> BenchResult<Vec<Figure>> {
    let size = if quick { QUICK } else { FULL };
    let mut world = worlds.start(Sample::Pod, 0).await?;
    let mut steps: Vec<ScalingStep> = Vec::new();
    for objects in size.objects.iter().copied() {
        world.grow(objects).await?;
        // The server encodes an object when it is read for the first time, which is not the client's time.
        progress(format!("a run with {objects} that does not count"));
        in_turns(&world, [Defaults], objects, 1).await?;
        let step = ScalingStep::take(&world, objects, size).await?;
        for scaled in [SECONDS, CPU, RESIDENT, GET] {
            print_result(scaled.at(&step));
        }
        steps.push(step);
    }
    world.end().await?;
    let mut figures = Vec::new();
    for scaled in [SECONDS, CPU, RESIDENT, GET] {
        figures.extend(steps.iter().map(|step| scaled.at(step)));
    }
    figures.push(SECONDS.linear(&steps, "", 1e6, "µs"));
    figures.extend(SECONDS.bent("object", of_each, &steps, size));
    let full = steps.partition_point(|step| Some(step.objects) < size.full);
    let from = size.full.map_or_else(String::new, |full| {
        format!(", from {full} objects on (full budget)")
    });
    // Memory figures do not depend on the machine.
    let linear = RESIDENT.linear(&steps[full..], &from, 1e3, "kB");
    figures.push(linear.guarded());
    // The first figure includes the program and its budget.
    let bent = RESIDENT.bent("additional object", of_one_more, &steps, size);
    figures.extend(bent.map(Figure::guarded));
    figures.extend(flat(&steps));
    Ok(figures)
}

impl ScalingStep {
    async fn take(world: &World, objects: u64, size: ScalingSize) -> BenchResult<Self> {
        let runs = if objects > size.often { 1 } else { size.runs };
        progress(format!("{runs} runs with {objects}"));
        let (own, json, peer) = if objects > size.together {
            let of = [Defaults, Json];
            let [own, json] = in_turns(world, of, objects, runs).await?;
            (own, json, Vec::new())
        } else {
            let of = [Defaults, Json, KubeRuntime];
            let [own, json, peer] = in_turns(world, of, objects, runs).await?;
            (own, json, peer)
        };
        Ok(Self {
            objects,
            own,
            json,
            peer,
        })
    }
}

impl Scaled {
    fn at(self, step: &ScalingStep) -> Figure {
        let own = Spread::over(&step.own, self.of);
        let mut figure = Figure::new(self.id, self.what, self.unit, own).at(step.objects);
        if !step.peer.is_empty() {
            figure = figure.beside(KUBE_RUNTIME, Spread::over(&step.peer, self.of));
        }
        figure.beside(IN_JSON, Spread::over(&step.json, self.of))
    }

    /// Returns R² of a linear fit. The label states the fitted cost per object; `each` converts it
    /// from the unit of the figure to `unit`, for example 1e6 from seconds to microseconds.
    fn linear(self, steps: &[ScalingStep], from: &str, each: f64, unit: &str) -> Figure {
        let fit = Fit::of(&self.points(steps));
        let what = format!(
            "{}{from}: R² of a linear fit ({:.2} {unit} per object, {:.1} {} at zero objects)",
            self.what,
            fit.slope * each,
            fit.base,
            self.unit
        );
        let id = format!("{}/linear", self.id);
        Figure::new(&id, what, "", Spread::one(fit.explained)).at_least(0.99)
    }

    /// Returns the cost per object at the largest size, divided by the cost at a smaller size. A slight curve still has
    /// a high R², but it changes this ratio visibly.
    fn bent(
        self,
        one: &str,
        times: fn(&[Point], f64) -> Option<f64>,
        steps: &[ScalingStep],
        size: ScalingSize,
    ) -> Option<Figure> {
        let (most, from) = (steps.last()?.objects, size.from);
        let times = times(&self.points(steps), from as f64)?;
        let what = format!(
            "{}: cost per {one} with {most} objects, divided by the cost with {from}",
            self.what
        );
        let id = format!("{}/bent", self.id);
        Some(Figure::new(&id, what, "", Spread::one(times)).at_most(1.3))
    }

    fn points(self, steps: &[ScalingStep]) -> Vec<Point> {
        let median = |step: &ScalingStep| Spread::over(&step.own, self.of).median;
        let points = steps.iter().map(|step| (step.objects as f64, median(step)));
        points.collect()
    }
}

/// Returns the time of a read with the most objects, divided by the time with the fewest.
fn flat(steps: &[ScalingStep]) -> Option<Figure> {
    let points = GET.points(steps);
    let ((few, first), (many, last)) = (points.first()?, points.last()?);
    let what = format!(
        "{}: time with {many} objects, divided by the time with {few}",
        GET.what
    );
    let times = Spread::one(last / first);
    Some(Figure::new("scaling/get/flat", what, "", times).at_most(1.5))
}
