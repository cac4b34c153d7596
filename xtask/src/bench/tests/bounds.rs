//! Tests of bounds and limits, and of failing checks.

use super::{NONE, alone, at, figure, measured};
use crate::bench::check;
use crate::bench::figure::{Figure, Target};
use crate::bench::results::Results;

#[test]
fn a_bound_only_tightens() {
    let bound = |results: &Results| results.tables["cache"].figures[0].bound;
    let mut results = Results::none();
    results.take("cache", measured(vec![figure("cache/a", 1.0, 2.0)]));
    assert_eq!(bound(&results), Some(1.6));
    // A better ratio tightens the bound to a fifth below the ratio.
    results.take("cache", measured(vec![figure("cache/a", 1.0, 3.0)]));
    assert_eq!(bound(&results), Some(2.4));
    // A worse ratio keeps the bound.
    results.take("cache", measured(vec![figure("cache/a", 1.0, 2.5)]));
    assert_eq!(bound(&results), Some(2.4));
    // A much better ratio tightens the bound to the target at most.
    results.take("cache", measured(vec![figure("cache/a", 1.0, 30.0)]));
    assert_eq!(bound(&results), Some(3.0));
    results.take("cache", measured(vec![alone("cache/b", 1.0)]));
    assert_eq!(bound(&results), None);
    // A figure that one run did not measure keeps its bound.
    results.take("cache", measured(vec![alone("cache/b", 1.0)]));
    results.take("cache", measured(vec![figure("cache/a", 1.0, 2.5)]));
    assert_eq!(bound(&results), Some(3.0));
    assert_eq!(results.tables["cache"].missing, []);
    // A figure that one run measured without its peer keeps its bound, too.
    results.take("cache", measured(vec![alone("cache/a", 1.0)]));
    assert_eq!(bound(&results), Some(3.0));
}

#[test]
fn a_check_fails_if_a_figure_with_a_bound_was_not_measured() {
    let mut results = Results::none();
    let guarded = Figure {
        target: Some(Target::AtMost(3.0)),
        guard: true,
        ..alone("load/b", 1.0)
    };
    let free = alone("load/c", 1.0);
    results.take(
        "load",
        measured(vec![at(10, figure("load/a", 1.0, 2.0)), guarded, free]),
    );
    // The check fails again after further runs without these figures were saved.
    for _ in 0..2 {
        let lines = check::failures(&results.tables["load"].known(), &[]);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains("load/a at 10: was not"), "{lines:?}");
        assert!(lines[1].contains("load/b: was not"), "{lines:?}");
        results.take("load", measured(Vec::new()));
    }
    // Without the peer there is no ratio.
    let lines = check::failures(
        &results.tables["load"].known()[..1],
        &[at(10, alone("load/a", 1.0))],
    );
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("no peer"), "{lines:?}");
}

#[test]
fn a_guarded_figure_saved_beyond_its_target_fails_a_fifth_later() {
    let growth = |own| Figure {
        target: Some(Target::AtMost(10.0)),
        guard: true,
        ..alone("steady/a", own)
    };
    let mut results = Results::none();
    let mut noted = |own| {
        results.take("steady", measured(vec![growth(own)]));
        results.tables["steady"].figures.clone()
    };
    // The target was missed already; a figure a fifth worse fails.
    let missed = noted(50.0);
    for was in [&missed, &vec![growth(50.0)]] {
        assert_eq!(check::failures(was, &[growth(60.0)]), NONE);
        let lines = check::failures(was, &[growth(60.1)]);
        assert!(lines[0].contains("60.1 s, and at most 60 s"), "{lines:?}");
    }
    // Saved again, the limit only tightens, down to the target.
    assert_eq!(noted(55.0)[0].limit, Some(Target::AtMost(60.0)));
    assert_eq!(noted(20.0)[0].limit, Some(Target::AtMost(24.0)));
    assert_eq!(noted(9.0)[0].limit, Some(Target::AtMost(10.0)));
    let worse = noted(11.0);
    assert_eq!(worse[0].limit, Some(Target::AtMost(10.0)));
    assert_eq!(check::failures(&worse, &worse).len(), 1);
    // The same for a target with a minimum.
    let share = |own| Figure {
        target: Some(Target::AtLeast(100.0)),
        ..growth(own)
    };
    assert_eq!(share(100.0).limit(), Some(Target::AtLeast(100.0)));
    assert_eq!(share(50.0).limit(), Some(Target::AtLeast(40.0)));
    assert_eq!(check::failures(&[share(50.0)], &[share(40.0)]), NONE);
    assert_eq!(check::failures(&[share(50.0)], &[share(39.9)]).len(), 1);
}

#[test]
fn the_saved_results_pass_their_own_check() {
    let noted = Results::parse(include_str!("../../../../docs/benchmarks.json")).unwrap();
    for measured in noted.tables.values() {
        assert_eq!(check::failures(&measured.known(), &measured.figures), NONE);
    }
}

#[test]
fn a_check_fails_only_below_the_bound() {
    let mut noted = figure("cache/a", 1.0, 4.0);
    noted.bound = Some(3.0);
    let noted = [noted];
    let said = |own, peer| check::failures(&noted, &[figure("cache/a", own, peer)]);
    assert_eq!(said(1.0, 3.0), NONE);
    // Figure and peer are ten times slower: another machine.
    assert_eq!(said(10.0, 40.0), NONE);
    let worse = said(1.0, 2.9);
    assert_eq!(worse.len(), 1);
    assert!(
        worse[0].contains("cache/a: 2.90x") && worse[0].contains("3.00x"),
        "{worse:?}"
    );
    assert_eq!(said(f64::NAN, 2.0).len(), 1);
    // A figure without saved results has no bound.
    assert_eq!(check::failures(&[], &[figure("cache/a", 1.0, 1.0)]), NONE);
}

#[test]
fn a_check_fails_if_a_guarded_target_is_missed() {
    let target = Some(Target::AtMost(1.0));
    let requests = |own, guard| Figure {
        target,
        guard,
        ..alone("load/a", own)
    };
    assert_eq!(check::failures(&[], &[requests(1.0, true)]), NONE);
    assert_eq!(check::failures(&[], &[requests(2.0, true)]).len(), 1);
    assert_eq!(check::failures(&[], &[requests(2.0, false)]), NONE);
}
