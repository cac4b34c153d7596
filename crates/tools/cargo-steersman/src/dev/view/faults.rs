//! Machine: the faults that keys of the view inject, and whether the operator has recovered from them.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::requests::ViewRequest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ViewFault {
    /// The server ends every open watch.
    CutWatches,
    /// The server answers the next [`CONFLICTS`] writes with 409.
    Conflicts,
    /// The server answers every request with 503, and breaks every open watch.
    Outage,
    /// The server delays every request.
    SlowLink,
    /// The server forgets its past revisions, and ends every open watch with 410.
    Expiry,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FaultWords {
    pub(crate) key: char,
    /// The short name of the fault for the footer.
    pub(crate) short: &'static str,
    pub(crate) name: &'static str,
}

/// The faults from which the operator has not recovered, and the watches and problems of the operator.
#[derive(Debug, Default)]
pub(crate) struct FaultWatch {
    injected: Vec<InjectedFault>,
    /// The collections that the operator watches, as in [`ViewRequest::watched`].
    watched: BTreeSet<String>,
    /// The problems in the last diagnostics: failing informers, and requests with a failed last reconcile.
    problems: BTreeSet<String>,
}

#[derive(Debug)]
struct InjectedFault {
    fault: ViewFault,
    /// When the fault began; once the fault is lifted, when it was lifted.
    since: Instant,
    is_over: bool,
    /// The watches that the fault ended and that the operator has not opened again.
    missing: BTreeSet<String>,
    /// The problems that existed before the fault.
    before: BTreeSet<String>,
    /// The last instant at which a watch was missing or a new problem existed.
    last_problem: Instant,
    /// Whether a line has reported that the recovery takes long.
    is_late: bool,
}

/// The number of writes that the fault `Conflicts` refuses with 409.
pub(crate) const CONFLICTS: u32 = 3;
/// The delay of each request over a slow link, in milliseconds.
pub(crate) const SLOW_MILLIS: u64 = 800;
/// How long all watches and problems must be as before the fault until the operator counts as recovered.
const SETTLED: Duration = Duration::from_millis(1500);
/// The time after which a line reports that the recovery takes long.
const LATE: Duration = Duration::from_secs(60);

impl ViewFault {
    /// All faults, in the order of the help.
    pub(crate) const ALL: [Self; 5] = [
        Self::CutWatches,
        Self::Conflicts,
        Self::Outage,
        Self::SlowLink,
        Self::Expiry,
    ];

    pub(crate) fn words(self) -> FaultWords {
        let (key, short, name) = match self {
            Self::CutWatches => ('w', "cut", "cut watches"),
            Self::Conflicts => ('c', "409", "conflicts"),
            Self::Outage => ('o', "outage", "outage"),
            Self::SlowLink => ('s', "slow", "slow link"),
            Self::Expiry => ('x', "410", "expire"),
        };
        FaultWords { key, short, name }
    }

    pub(crate) fn effect(self) -> String {
        match self {
            Self::CutWatches => "every open watch ends".to_owned(),
            Self::Conflicts => format!("the next {CONFLICTS} writes get a 409"),
            Self::Outage => "every request gets a 503, and every open watch breaks".to_owned(),
            Self::SlowLink => format!("every request waits for {SLOW_MILLIS} ms"),
            Self::Expiry => "every open watch ends with 410, without its past versions".to_owned(),
        }
    }

    fn lasts(self) -> bool {
        matches!(self, Self::Conflicts | Self::Outage | Self::SlowLink)
    }

    fn ends_watches(self) -> bool {
        matches!(self, Self::CutWatches | Self::Outage | Self::Expiry)
    }
}

impl FaultWatch {
    /// Returns whether a lasting fault is injected and not lifted.
    pub(crate) fn is_on(&self, fault: ViewFault) -> bool {
        let mut injected = self.injected.iter();
        injected.any(|known| known.fault == fault && !known.is_over)
    }

    /// Returns the faults that are injected, or from which the operator has not recovered.
    pub(crate) fn present(&self) -> impl Iterator<Item = (ViewFault, bool)> + '_ {
        self.injected
            .iter()
            .map(|known| (known.fault, known.is_over))
    }

    pub(crate) fn inject(&mut self, fault: ViewFault, now: Instant) {
        self.injected.retain(|known| known.fault != fault);
        let missing = match fault.ends_watches() {
            true => self.watched.clone(),
            false => BTreeSet::new(),
        };
        self.injected.push(InjectedFault {
            fault,
            since: now,
            is_over: !fault.lasts(),
            missing,
            before: self.problems.clone(),
            last_problem: now,
            is_late: false,
        });
    }

    /// Records that a fault was lifted or has had its full effect.
    pub(crate) fn lift(&mut self, fault: ViewFault, now: Instant) {
        for known in &mut self.injected {
            if known.fault == fault && !known.is_over {
                (known.is_over, known.since, known.last_problem) = (true, now, now);
            }
        }
    }

    pub(crate) fn note_request(&mut self, request: &ViewRequest, now: Instant) {
        if let Some(watched) = request.watched.as_ref().filter(|_| request.is_good()) {
            for known in &mut self.injected {
                if known.missing.remove(watched) {
                    known.last_problem = now;
                }
            }
            self.watched.insert(watched.clone());
        }
        if request.is_refused() {
            for known in &mut self.injected {
                known.last_problem = now;
            }
        }
    }

    pub(crate) fn note_problems(&mut self, problems: BTreeSet<String>, now: Instant) {
        for known in &mut self.injected {
            if !problems.is_subset(&known.before) {
                known.last_problem = now;
            }
        }
        self.problems = problems;
    }

    /// Forgets the watches and problems, because another process of the operator has started.
    pub(crate) fn forget_operator(&mut self) {
        self.watched.clear();
        self.problems.clear();
        for known in &mut self.injected {
            known.missing.clear();
        }
    }

    /// Returns lines about the recoveries since the last call, and about recoveries that take long.
    pub(crate) fn settle(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let problems = &self.problems;
        self.injected.retain_mut(|known| {
            let is_as_before = known.missing.is_empty() && problems.is_subset(&known.before);
            let quiet = now.saturating_duration_since(known.last_problem);
            if known.is_over && is_as_before && quiet >= SETTLED {
                lines.push(known.settled());
                return false;
            }
            let lasts = now.saturating_duration_since(known.since);
            if known.is_over && !is_as_before && lasts >= LATE && !known.is_late {
                known.is_late = true;
                lines.push(known.late(problems));
            }
            true
        });
        lines
    }
}

impl InjectedFault {
    fn settled(&self) -> String {
        let name = self.fault.words().name;
        let took = self.last_problem.saturating_duration_since(self.since);
        let took = took.as_secs_f64();
        match self.fault {
            ViewFault::CutWatches | ViewFault::Expiry => {
                format!("{name}: every watch is open again and no request fails, after {took:.2} s")
            }
            ViewFault::Conflicts => format!(
                "{name}: no request fails any more, {took:.2} s after the last of the {CONFLICTS}"
            ),
            ViewFault::Outage | ViewFault::SlowLink => {
                format!("{name}: all is as before, {took:.2} s after its end")
            }
        }
    }

    fn late(&self, problems: &BTreeSet<String>) -> String {
        let watches = self
            .missing
            .iter()
            .map(|kind| format!("no watch of {kind}"));
        let problems = problems.difference(&self.before).cloned();
        let lasting = watches.chain(problems).collect::<Vec<_>>().join("; ");
        let (name, seconds) = (self.fault.words().name, LATE.as_secs());
        format!("{name}: not as before after {seconds} s: {lasting}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn watch(kind: &str, status: u16) -> ViewRequest {
        ViewRequest {
            verb: "watch",
            target: kind.to_owned(),
            watched: Some(kind.to_owned()),
            status: Some(status),
        }
    }

    fn write(status: u16) -> ViewRequest {
        ViewRequest {
            verb: "patch",
            target: "a".to_owned(),
            watched: None,
            status: Some(status),
        }
    }

    #[test]
    fn cut_watches_are_over_when_each_watch_is_open_again_and_nothing_fails() {
        let (mut faults, begin) = (FaultWatch::default(), crate::dev::clock::now());
        faults.note_request(&watch("a", 200), begin);
        faults.note_request(&watch("b", 200), begin);
        faults.inject(ViewFault::CutWatches, begin);
        assert!(!faults.is_on(ViewFault::CutWatches));
        faults.note_request(&watch("a", 200), begin + 100 * MS);
        faults.note_request(&watch("b", 503), begin + 100 * MS);
        assert!(faults.settle(begin + 5000 * MS).is_empty());
        faults.note_request(&watch("b", 200), begin + 5100 * MS);
        assert!(faults.settle(begin + 5200 * MS).is_empty());
        let lines = faults.settle(begin + 6600 * MS);
        let expected = "cut watches: every watch is open again and no request fails, after 5.10 s";
        assert_eq!(lines, [expected]);
        assert_eq!(faults.present().count(), 0);
    }

    #[test]
    fn an_outage_is_over_when_it_is_lifted_and_the_problems_are_those_of_before() {
        let (mut faults, begin) = (FaultWatch::default(), crate::dev::clock::now());
        let problems = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        faults.note_problems(problems(&["x fails"]), begin);
        faults.inject(ViewFault::Outage, begin);
        assert!(faults.is_on(ViewFault::Outage));
        faults.note_problems(problems(&["x fails", "y fails"]), begin + 100 * MS);
        assert!(faults.settle(begin + 9000 * MS).is_empty());
        faults.lift(ViewFault::Outage, begin + 9000 * MS);
        faults.note_request(&write(503), begin + 9500 * MS);
        assert!(faults.settle(begin + 12_000 * MS).is_empty());
        let late = faults.settle(begin + 69_000 * MS);
        assert_eq!(late, ["outage: not as before after 60 s: y fails"]);
        faults.note_problems(problems(&["x fails"]), begin + 70_000 * MS);
        assert_eq!(
            faults.settle(begin + 70_000 * MS),
            ["outage: all is as before, 0.50 s after its end"]
        );
    }

    #[test]
    fn conflicts_are_on_until_they_had_their_effect() {
        let (mut faults, begin) = (FaultWatch::default(), crate::dev::clock::now());
        faults.inject(ViewFault::Conflicts, begin);
        assert!(faults.settle(begin + 9000 * MS).is_empty());
        faults.note_request(&write(409), begin + 9000 * MS);
        faults.lift(ViewFault::Conflicts, begin + 9000 * MS);
        assert_eq!(faults.settle(begin + 10_500 * MS).len(), 1);
    }
}
