//! Machine: finds the points of an undisturbed run, and the perturbations that fit them.

use std::collections::BTreeMap;

use crate::perturbation::{Perturbation, PerturbationKind};
use crate::request::{OperatorRequest, RequestVerb};
use crate::scenario::Scenario;
use crate::world_event::ObjectChange;

/// The codes of refused writes: a conflict, an invalid object, too many requests, an internal error, and a server that is
/// not available.
const REFUSALS: [u64; 5] = [409, 422, 429, 500, 503];

/// A write or read of an undisturbed run. In another run the point is found by its verb, resource, subresource and
/// namespace, and by the number of such requests before it, because requests for different objects may come in another
/// order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    verb: RequestVerb,
    resource: String,
    subresource: Option<String>,
    namespace: Option<String>,
    /// The number of earlier requests with the same verb, resource, subresource and namespace.
    earlier: usize,
}

/// Numbers the requests of one world, and finds their points.
#[derive(Debug, Default)]
pub struct PointCounter {
    seen: BTreeMap<Point, usize>,
    writes: usize,
    reads: usize,
}

/// A write of the reference.
#[derive(Debug, Clone)]
pub struct ReferenceWrite {
    /// The point.
    pub point: Point,
    /// What the write changed; `None` if it changed nothing.
    pub change: Option<ObjectChange>,
    /// The revision of the server after the write.
    pub revision: u64,
    /// The revision of the server after the user's last step before the write.
    pub step_revision: u64,
}

/// The points of the reference, and what the operator uses.
#[derive(Debug, Clone, Default)]
pub struct ReferencePoints {
    /// The writes, in their order; write N is at index N - 1.
    pub writes: Vec<ReferenceWrite>,
    /// The gets and lists, in their order.
    pub reads: Vec<Point>,
    /// Whether the operator requests Leases, as in leader election.
    pub elects: bool,
    /// Whether the operator lists or watches with `resourceVersion=0`, which a lagging server may answer with an old state,
    /// or begins with streaming lists, which such a server need not offer.
    pub may_be_stale: bool,
    /// Whether a webhook configuration exists.
    pub has_webhooks: bool,
    /// How the operator learns of changes if it does not watch.
    pub polling: Polling,
}

/// Whether an operator without watches reads the same again and again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Polling {
    /// It has not read the same twice.
    #[default]
    Never,
    /// It has read the same twice without a watch.
    Repeats,
}

impl Point {
    /// Returns whether both points have the same verb, resource, subresource and namespace.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let form = |point: &Self| Self {
            earlier: 0,
            ..point.clone()
        };
        form(self) == form(other)
    }
}

impl PointCounter {
    /// Counts a request. Returns its point, and its number among the writes or among the reads, from 1; `None` for a
    /// request that is neither.
    pub fn count(&mut self, request: &OperatorRequest) -> Option<(usize, Point)> {
        let counter = match (request.is_write(), request.is_read()) {
            (true, _) => &mut self.writes,
            (false, true) => &mut self.reads,
            (false, false) => return None,
        };
        *counter += 1;
        let number = *counter;
        let mut point = Point {
            verb: request.verb,
            resource: request.resource.clone(),
            subresource: request.subresource.clone(),
            namespace: request.namespace.clone(),
            earlier: 0,
        };
        let seen = self.seen.entry(point.clone()).or_default();
        point.earlier = *seen;
        *seen += 1;
        Some((number, point))
    }

    /// Returns the number of writes so far.
    #[must_use]
    pub fn writes(&self) -> usize {
        self.writes
    }
}

impl ReferencePoints {
    /// Returns the point of a perturbation; `None` for one that happens at no request, and if
    /// the reference has no such request.
    #[must_use]
    pub fn point(&self, perturbation: &Perturbation) -> Option<&Point> {
        let at = perturbation.at.checked_sub(1)?;
        if perturbation.kind == PerturbationKind::DesiredState {
            return None;
        }
        if perturbation.kind.is_at_read() {
            return self.reads.get(at);
        }
        self.writes.get(at).map(|write| &write.point)
    }

    /// Returns what is known of the operator without its requests.
    pub(crate) fn without_requests(&self) -> Self {
        Self {
            writes: Vec::new(),
            reads: Vec::new(),
            ..*self
        }
    }

    /// Returns the perturbations that fit, ordered by their points, so that an exploration with a budget tries each
    /// kind at the first points.
    #[must_use]
    pub fn perturbations(&self, scenario: &Scenario) -> Vec<Perturbation> {
        let kinds: Vec<PerturbationKind> = match &scenario.rules.perturbations {
            Some(kinds) => kinds.clone(),
            None => PerturbationKind::all().collect(),
        };
        let mut all = Vec::new();
        for kind in kinds {
            match kind {
                PerturbationKind::SettledRestart => all.push(Perturbation::of_world(kind)),
                PerturbationKind::Throttled => all.push(Perturbation::of_world(kind)),
                PerturbationKind::NoWebhook if self.has_webhooks => {
                    all.push(Perturbation::of_world(kind))
                }
                // Desired states are no points of requests.
                PerturbationKind::NoWebhook | PerturbationKind::DesiredState => {}
                PerturbationKind::CrashAfterRead => {
                    all.extend((1..=self.reads.len()).map(|at| Perturbation::at(kind, at)));
                }
                kind => {
                    for (at, write) in self.writes.iter().enumerate() {
                        all.extend(self.at_write(kind, at + 1, write, scenario));
                    }
                }
            }
        }
        // Stable: kinds keep their order at each point.
        all.sort_by_key(|perturbation| perturbation.at);
        all
    }

    fn at_write(
        &self,
        kind: PerturbationKind,
        at: usize,
        write: &ReferenceWrite,
        scenario: &Scenario,
    ) -> Vec<Perturbation> {
        let one = Perturbation::at(kind, at);
        let change = write.change.as_ref();
        let fits = match kind {
            PerturbationKind::Refuse => return REFUSALS.map(|code| one.with_detail(code)).to_vec(),
            PerturbationKind::StaleRestart if self.may_be_stale => return self.stale(one, write),
            PerturbationKind::StaleRestart => false,
            PerturbationKind::TwoLeaders => self.elects,
            PerturbationKind::Missed => {
                change.is_some_and(|change| can_be_missed(change, scenario))
            }
            PerturbationKind::Interfere => change.is_some_and(|change| change.after.is_some()),
            PerturbationKind::NamespaceDeleted => change.is_some_and(|change| {
                let namespace = &change.id.namespace;
                !matches!(namespace.as_str(), "" | "default") && !namespace.starts_with("kube-")
            }),
            _ => true,
        };
        if fits { vec![one] } else { Vec::new() }
    }

    /// Returns restarts that first see the state before the write, before the write before, and before the user's step.
    fn stale(&self, one: Perturbation, write: &ReferenceWrite) -> Vec<Perturbation> {
        let before = self.writes.get(one.at.wrapping_sub(2));
        let older = [
            Some(write.revision.saturating_sub(1)),
            before.map(|before| before.revision.saturating_sub(1)),
            Some(write.step_revision.saturating_sub(1)),
        ];
        let mut revisions: Vec<u64> = older
            .into_iter()
            .flatten()
            .map(|revision| write.revision.saturating_sub(revision))
            .filter(|revisions| *revisions > 0)
            .collect();
        revisions.sort_unstable();
        revisions.dedup();
        revisions
            .into_iter()
            .map(|revisions| one.with_detail(revisions))
            .collect()
    }
}

/// Returns whether [`PerturbationKind::Missed`] fits a write: the written object exists and has no finalizers, so that
/// its deletion completes at once, and the object is new or one that the user can apply again.
fn can_be_missed(change: &ObjectChange, scenario: &Scenario) -> bool {
    let Some(after) = &change.after else {
        return false;
    };
    let finalizers = after["metadata"]["finalizers"].as_array();
    let is_free =
        finalizers.is_none_or(Vec::is_empty) && after["metadata"]["deletionTimestamp"].is_null();
    is_free
        && change.id.kind != "Namespace"
        && (change.before.is_none() || scenario.applies(&change.id))
}

impl std::fmt::Display for Point {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if let Some(subresource) = &self.subresource {
            write!(f, "/{subresource}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        write!(f, ", number {}", self.earlier + 1)
    }
}

#[cfg(test)]
mod tests;
