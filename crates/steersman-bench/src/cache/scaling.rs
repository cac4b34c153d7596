//! Driver: measures sync, memory and reads for growing numbers of objects.

use super::sync::in_turns;
use super::words::{Synced, Who};
use crate::fit::{Fit, Point, of_each, of_one_more};
use crate::process::{Outcome, progress, tell};
use crate::report::{Figure, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::world::{World, Worlds};

/// The sizes of the measurements.
#[derive(Debug, Clone, Copy)]
struct ScalingSize {
    /// The numbers of objects, in ascending order.
    objects: &'static [u64],
    runs: u32,
    /// Larger numbers of objects are measured once.
    often: u64,
    /// Larger numbers of objects are not measured with kube-runtime, which keeps all of them
    /// decoded.
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
    what: "cold start to synced",
    unit: "s",
    of: |one| one.seconds,
};

const CPU: Scaled = Scaled {
    id: "scaling/cpu",
    what: "processor time of the client for that",
    unit: "s",
    of: |one| one.cpu,
};

const RESIDENT: Scaled = Scaled {
    id: "scaling/resident",
    what: "resident memory, each read once",
    unit: "MB",
    of: |one| one.read as f64 / 1e6,
};

const GET: Scaled = Scaled {
    id: "scaling/get",
    what: "read by key, a thousand keys in turn",
    unit: "ns",
    of: |one| one.spread_ns,
};

/// The runs with one number of objects.
struct Step {
    objects: u64,
    own: Vec<Synced>,
    peer: Vec<Synced>,
}

/// Runs all measurements on one server that grows.
pub(crate) async fn measure(worlds: &mut Worlds, quick: bool) -> Outcome<Vec<Figure>> {
    let size = if quick { QUICK } else { FULL };
    let mut world = worlds.start(Sample::Pod, 0).await?;
    let mut steps: Vec<Step> = Vec::new();
    for objects in size.objects.iter().copied() {
        world.grow(objects).await?;
        let step = Step::take(&world, objects, size).await?;
        for scaled in [SECONDS, CPU, RESIDENT, GET] {
            tell(scaled.at(&step));
        }
        steps.push(step);
    }
    world.end().await?;
    let mut figures = Vec::new();
    for scaled in [SECONDS, CPU, RESIDENT, GET] {
        figures.extend(steps.iter().map(|step| scaled.at(step)));
    }
    figures.push(SECONDS.linear(&steps, "", 1e6, "µs"));
    figures.extend(SECONDS.bent("one", of_each, &steps, size));
    let full = steps.partition_point(|step| Some(step.objects) < size.full);
    let from = size
        .full
        .map(|full| format!(", from {full} objects on, where the budget is full"));
    let from = from.unwrap_or_default();
    // Memory figures do not depend on the machine.
    let linear = RESIDENT.linear(&steps[full..], &from, 1e3, "kB");
    figures.push(linear.guarded());
    // The first figure includes the program and its budget.
    let bent = RESIDENT.bent("one more", of_one_more, &steps, size);
    figures.extend(bent.map(Figure::guarded));
    figures.extend(flat(&steps));
    Ok(figures)
}

impl Step {
    async fn take(world: &World, objects: u64, size: ScalingSize) -> Outcome<Self> {
        let runs = if objects > size.often { 1 } else { size.runs };
        progress(format!("{runs} runs with {objects}"));
        let (own, peer) = if objects > size.together {
            let [own] = in_turns(world, [Who::Defaults], objects, runs).await?;
            (own, Vec::new())
        } else {
            let of = [Who::Defaults, Who::KubeRuntime];
            let [own, peer] = in_turns(world, of, objects, runs).await?;
            (own, peer)
        };
        Ok(Self { objects, own, peer })
    }
}

impl Scaled {
    fn at(self, step: &Step) -> Figure {
        let own = Spread::over(&step.own, self.of);
        let figure = Figure::new(self.id, self.what, self.unit, own).at(step.objects);
        if step.peer.is_empty() {
            return figure;
        }
        figure.beside(KUBE_RUNTIME, Spread::over(&step.peer, self.of))
    }

    /// Returns the fit of a straight line, and the cost per object by it: `each` of the unit are
    /// one of that of an object.
    fn linear(self, steps: &[Step], from: &str, each: f64, unit: &str) -> Figure {
        let fit = Fit::of(&self.points(steps));
        let what = format!(
            "{}{from}, by a straight line: {:.2} {unit} an object and {:.1} {} besides; how much of the differences it explains (R²)",
            self.what,
            fit.slope * each,
            fit.base,
            self.unit
        );
        Figure::new(
            &format!("{}/linear", self.id),
            what,
            "",
            Spread::one(fit.explained),
        )
        .at_least(0.99)
    }

    /// Returns the cost per object with the most objects, as a multiple of that with fewer. A line
    /// fits a slight curve well; this ratio does not.
    fn bent(
        self,
        one: &str,
        times: fn(&[Point], f64) -> Option<f64>,
        steps: &[Step],
        size: ScalingSize,
    ) -> Option<Figure> {
        let (most, from) = (steps.last()?.objects, size.from);
        let times = times(&self.points(steps), from as f64)?;
        let what = format!(
            "{}: what {one} costs with {most} objects, as a multiple of that with {from}",
            self.what
        );
        let id = format!("{}/bent", self.id);
        let figure = Figure::new(&id, what, "", Spread::one(times));
        Some(figure.at_most(1.3))
    }

    fn points(self, steps: &[Step]) -> Vec<Point> {
        let median = |step: &Step| Spread::over(&step.own, self.of).median;
        let points = steps.iter().map(|step| (step.objects as f64, median(step)));
        points.collect()
    }
}

/// Returns the cost of a read with the most objects, as a multiple of that with the fewest.
fn flat(steps: &[Step]) -> Option<Figure> {
    let (few, many) = (steps.first()?, steps.last()?);
    let median = |step: &Step| Spread::over(&step.own, GET.of).median;
    let what = format!(
        "{}: with {} objects, as a multiple of that with {}",
        GET.what, many.objects, few.objects
    );
    let times = Spread::one(median(many) / median(few));
    let figure = Figure::new("scaling/get/flat", what, "", times);
    Some(figure.at_most(1.5))
}
