//! Machine: groups the points of a report by the kinds of their perturbations.

use super::explore_report::{ExploreReport, PointCounts, PointReport};
use crate::perturbation::{PerturbationKind, REFERENCE};

/// The name of the group of points with several perturbations.
const PAIRS: &str = "pairs";

/// Returns the name of the group of a point: the kind of its perturbation.
pub(crate) fn kind_name(point: &PointReport) -> &'static str {
    match point.perturbations.as_slice() {
        [] => REFERENCE,
        [only] => only.kind.name(),
        _ => PAIRS,
    }
}

/// Returns the groups that have points, in the order in which kinds are explored.
pub(crate) fn counts_by_kind(report: &ExploreReport) -> Vec<(&'static str, PointCounts)> {
    let kinds = PerturbationKind::all().map(PerturbationKind::name);
    let names = [REFERENCE].into_iter().chain(kinds).chain([PAIRS]);
    let counts = names.map(|name| {
        let points = report
            .points
            .iter()
            .filter(|point| kind_name(point) == name);
        (name, PointCounts::of(points))
    });
    counts.filter(|(_, counts)| counts.tried > 0).collect()
}
