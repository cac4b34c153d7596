//! Driver: sync, memory and reads from few objects to many.

use super::sync::in_turns;
use super::words::{Synced, Who};
use crate::fit::{Fit, Point, of_each, of_one_more};
use crate::process::{Outcome, progress, tell};
use crate::report::{Figure, KUBE_RUNTIME, Spread};
use crate::samples::Sample;
use crate::world::{World, Worlds};

/// How large the measurements are.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Numbers of objects, each larger than the one before.
    objects: &'static [u64],
    runs: u32,
    /// More objects than these are measured once.
    often: u64,
    /// More objects than these are not measured with the peer, which keeps them all decoded.
    together: u64,
    /// With so many the budget is full: memory before that is the budget's. None where it never is.
    full: Option<u64>,
    /// What one costs with the most is told as a multiple of what it costs with so many.
    from: u64,
}

const FULL: Size = Size {
    objects: &[
        1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    ],
    runs: 5,
    often: 50_000,
    together: 50_000,
    full: Some(2_000),
    from: 10_000,
};

const QUICK: Size = Size {
    objects: &[100, 200, 500, 1_000],
    runs: 1,
    often: 500,
    together: 500,
    full: None,
    from: 200,
};

/// What is measured at each number of objects.
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

/// The runs of one number of objects.
struct Step {
    objects: u64,
    own: Vec<Synced>,
    peer: Vec<Synced>,
}

/// Runs all of them, on one server that grows.
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
    // What memory is like depends on no machine.
    let linear = RESIDENT.linear(&steps[full..], &from, 1e3, "kB");
    figures.push(linear.guarded());
    // The program and its budget are there with the first.
    let bent = RESIDENT.bent("one more", of_one_more, &steps, size);
    figures.extend(bent.map(Figure::guarded));
    figures.extend(flat(&steps));
    Ok(figures)
}

impl Step {
    async fn take(world: &World, objects: u64, size: Size) -> Outcome<Self> {
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

    /// How well a straight line fits, and what an object costs by it: `each` of the unit are one of
    /// that of an object.
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

    /// What one costs with the most objects, as a multiple of what it costs with fewer. A line explains
    /// much of what bends; this does not.
    fn bent(
        self,
        one: &str,
        times: fn(&[Point], f64) -> Option<f64>,
        steps: &[Step],
        size: Size,
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

/// What a read costs with the most objects, by what it costs with the fewest.
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
