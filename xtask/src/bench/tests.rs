//! Tests of parsing, saving, comparing, printing and drawing figures.

mod bounds;

use std::path::Path;

use super::figure::{Better, Figure, Peer, Spread, Target, grouped};
use super::results::{Measured, Results, figures};
use super::{check, draw, each, machine, page, parts, publish, table};
use crate::flags::{Bench, Part};

fn spread(median: f64) -> Spread {
    Spread {
        median,
        least: median * 0.98,
        most: median * 1.02,
        runs: 5,
    }
}

fn figure(id: &str, own: f64, peer: f64) -> Figure {
    Figure {
        id: id.to_owned(),
        what: format!("what {id} is"),
        at: None,
        unit: "s".to_owned(),
        better: Better::Less,
        own: spread(own),
        peers: vec![Peer {
            name: "kube-runtime".to_owned(),
            figure: spread(peer),
        }],
        target: Some(Target::Ratio(3.0)),
        guard: false,
        bound: None,
        limit: None,
    }
}

fn alone(id: &str, own: f64) -> Figure {
    Figure {
        peers: Vec::new(),
        target: None,
        ..figure(id, own, 1.0)
    }
}

fn at(objects: u64, figure: Figure) -> Figure {
    Figure {
        at: Some(objects),
        ..figure
    }
}

fn measured(figures: Vec<Figure>) -> Measured {
    Measured {
        date: "2026-11-22".to_owned(),
        machine: "2 cores".to_owned(),
        figures,
        missing: Vec::new(),
    }
}

const NONE: [&str; 0] = [];

#[test]
fn the_output_of_a_benchmark_is_parsed() {
    let line = r#"{"id":"cache/seconds","what":"a","unit":"s","better":"more","own":{"median":1.0,"least":1.0,"most":2.0,"runs":3},"peers":[{"name":"p","figure":{"median":2.0,"least":1.0,"most":2.0,"runs":1}}],"target":{"at-most":3.0},"guard":true,"at":10}"#;
    let read = figures(&format!("{line}\n\n{line}\n")).unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!(read[0].target, Some(Target::AtMost(3.0)));
    assert_eq!(read[0].better, Better::More);
    assert_eq!(read[0].ratio(), Some(0.5));
    assert_eq!(read[0].name(), "cache/seconds at 10");
    assert!(read[0].guard);
    let twice = serde_json::to_string(&read[0]).unwrap();
    assert_eq!(figures(&twice).unwrap()[0], read[0]);
}

#[test]
fn a_line_that_is_not_a_figure_is_quoted_in_the_error() {
    for line in ["half a line", r#"{"id":"a"}"#, r#"{"id":"a","speed":1}"#] {
        let problem = figures(line).unwrap_err();
        assert!(problem.contains(line), "{problem}");
    }
}

#[test]
fn saved_results_are_read_back_unchanged() {
    let mut results = Results::none();
    results.take(
        "cache",
        measured(vec![
            figure("cache/a", 1.0, 4.0),
            at(10, alone("cache/b", 2.0)),
        ]),
    );
    let text = results.text().unwrap();
    assert_eq!(Results::parse(&text).unwrap(), results);
    let newer = text.replace("\"format\": 1", "\"format\": 2");
    let problem = Results::parse(&newer).unwrap_err();
    assert!(
        problem.contains("format 2") && problem.contains("--write"),
        "{problem}"
    );
    assert!(Results::parse("{}").is_err());
}

#[test]
fn a_target_is_met_at_its_limit_and_missed_beyond_it() {
    let met = |target| {
        Figure {
            target,
            ..figure("a", 2.0, 7.0)
        }
        .met()
    };
    assert_eq!(met(None), None);
    assert_eq!(met(Some(Target::AtMost(2.0))), Some(true));
    assert_eq!(met(Some(Target::AtMost(1.9))), Some(false));
    assert_eq!(met(Some(Target::AtLeast(2.0))), Some(true));
    assert_eq!(met(Some(Target::AtLeast(2.1))), Some(false));
    assert_eq!(met(Some(Target::Ratio(3.5))), Some(true));
    assert_eq!(met(Some(Target::Ratio(3.6))), Some(false));
    let faster = Figure {
        better: Better::More,
        ..figure("a", 6.0, 2.0)
    };
    assert_eq!(faster.ratio(), Some(3.0));
    // Without a peer there is no ratio, so the target is missed.
    let lonely = Figure {
        target: Some(Target::Ratio(1.0)),
        ..alone("a", 1.0)
    };
    assert_eq!(lonely.met(), Some(false));
    assert_eq!(Target::Ratio(1.0 / 1.3).show("s"), "0.77x");
    assert_eq!(Target::Ratio(3.0).show("s"), "3x");
}

#[test]
fn only_changes_beyond_the_spread_are_reported() {
    let before = [figure("a", 1.0, 4.0), alone("gone", 1.0)];
    assert_eq!(
        check::changes(&before[..1], &[figure("a", 1.02, 4.0)]),
        NONE
    );
    let lines = check::changes(&before, &[figure("a", 2.0, 4.0), alone("new", 1.0)]);
    assert_eq!(
        lines,
        [
            "a: 2.00 s instead of 1.00 s (+100 %), and 2.00x instead of 4.00x of its peer",
            "new: is new",
            "gone: was not measured"
        ]
    );
    // Spreads that overlap report nothing.
    let wide = Figure {
        own: Spread {
            most: 3.0,
            ..spread(1.0)
        },
        ..alone("a", 1.0)
    };
    assert_eq!(check::changes(&[wide], &[alone("a", 2.0)]), NONE);
    let other = Figure {
        unit: "ms".to_owned(),
        ..alone("a", 1.0)
    };
    assert_eq!(check::changes(&[alone("a", 1.0)], &[other]).len(), 1);
    // The same id with another number of objects is another figure.
    let lines = check::changes(&[at(1, alone("a", 1.0))], &[at(2, alone("a", 1.0))]);
    assert_eq!(lines.len(), 2);
}

#[test]
fn figures_are_printed_with_three_significant_digits() {
    assert_eq!(spread(0.875).show("s"), "0.88 s (0.86 to 0.89)");
    assert_eq!(spread(51.93).brief("kB"), "51.9 kB");
    assert_eq!(spread(2597.4).brief("MB"), "2597 MB");
    let once = Spread {
        runs: 1,
        ..spread(1.0)
    };
    assert_eq!(once.show(""), "1.00");
    assert_eq!(grouped(1), "1");
    assert_eq!(grouped(1_000), "1,000");
    assert_eq!(grouped(1_234_567), "1,234,567");
}

#[test]
fn figures_over_numbers_of_objects_form_a_grid_and_others_rows() {
    let mut second = at(10_000, alone("b", 2.0));
    second.peers = figure("b", 1.0, 5.0).peers;
    let text = table::markdown(&[
        figure("a", 1.0, 4.0),
        Figure {
            target: Some(Target::AtMost(0.5)),
            ..alone("c", 1.0)
        },
        at(1000, alone("b", 1.0)),
        second,
    ]);
    let expected = "\
| measurement | result | target | |
|---|--:|--:|---|
| what a is | 1.00 s (0.98 to 1.02); kube-runtime 4.00 s (3.92 to 4.08): 4.0x | 3x | met |
| what c is | 1.00 s (0.98 to 1.02) | at most 0.5 s | missed |

| objects | 1,000 | 10,000 |
|---|--:|--:|
| what b is | 1.00 s | 2.00 s |
| what b is, kube-runtime |  | 5.00 s |
";
    assert_eq!(text, expected);
}

#[test]
fn a_table_is_written_between_its_marks() {
    let text = "a\n<!-- figures: x -->\nold\n<!-- end of figures -->\nb\n<!-- figures: y -->\n<!-- end of figures -->\n";
    let new = page::replace(text, "x", "\nnew\n").unwrap();
    assert_eq!(new, text.replace("old\n", "\nnew\n\n"));
    assert!(
        page::replace(text, "z", "")
            .unwrap_err()
            .contains("figures: z")
    );
    let open = "<!-- figures: x -->\n";
    assert!(
        page::replace(open, "x", "")
            .unwrap_err()
            .contains("end of figures")
    );
}

#[test]
fn the_book_has_marks_for_every_table() {
    use clap::ValueEnum as _;
    let page = include_str!("../../../docs/benchmarks.md");
    for part in Part::value_variants() {
        page::replace(page, &part.name(), "").unwrap();
    }
    let guide = include_str!("../../../crates/framework/steersman/guide/memory.md");
    page::replace(guide, "options", "").unwrap();
    let guide = include_str!("../../../crates/framework/steersman/guide/coming-from-kube-rs.md");
    page::replace(guide, "port", "").unwrap();
}

#[test]
fn a_saved_run_writes_its_table_and_plots_into_the_book() {
    let root = tempfile::tempdir().unwrap();
    let (docs, guide) = (
        root.path().join("docs"),
        root.path().join(super::GUIDE[0].1),
    );
    let marks = |name: &str| format!("<!-- figures: {name} -->\n<!-- end of figures -->\n");
    std::fs::create_dir_all(&docs).unwrap();
    std::fs::create_dir_all(guide.parent().unwrap()).unwrap();
    std::fs::write(docs.join("benchmarks.md"), marks("options")).unwrap();
    std::fs::write(&guide, marks("options")).unwrap();
    let weight = |objects| at(objects, alone("options/resident/defaults", 12.0));
    let mut results = Results::none();
    results.take("options", measured(vec![weight(1000), weight(2000)]));
    publish(root.path(), Part::Options, &results).unwrap();
    let page = std::fs::read_to_string(docs.join("benchmarks.md")).unwrap();
    assert!(page.contains("| objects | 1,000 | 2,000 |"), "{page}");
    assert!(page.contains("Measured on 2026-11-22 (2 cores)."), "{page}");
    assert!(
        page.contains("](benchmarks/options-resident.svg)"),
        "{page}"
    );
    assert!(docs.join("benchmarks/options-resident.svg").exists());
    let guide = std::fs::read_to_string(&guide).unwrap();
    assert!(
        guide.contains("| 12.0 s |") && !guide.contains("svg"),
        "{guide}"
    );
}

#[test]
fn a_failed_table_does_not_stop_other_tables() {
    let root = tempfile::tempdir().unwrap();
    let docs = root.path().join("docs");
    std::fs::create_dir_all(&docs).unwrap();
    let page = docs.join("benchmarks.md");
    let marks = |name: &str| format!("<!-- figures: {name} -->\n<!-- end of figures -->\n");
    let parts = [Part::Cache, Part::Load, Part::Kinds];
    let empty: String = parts.iter().map(|part| marks(&part.name())).collect();
    std::fs::write(&page, empty).unwrap();
    let write = Bench {
        write: true,
        ..Bench::default()
    };
    let file = root.path().join(super::FILE);
    let said = each(root.path(), &write, &parts, Results::none(), |part| {
        if part == Part::Load {
            // Earlier tables are saved already, so an interrupt would not lose them.
            assert!(Results::read(&file).unwrap().tables.contains_key("cache"));
            return Err("the benchmark failed".to_owned());
        }
        Ok(measured(vec![alone(&part.name(), 1.0)]))
    });
    assert_eq!(said.unwrap_err(), "the benchmark failed");
    let noted = Results::read(&file).unwrap();
    let names: Vec<&str> = noted.tables.keys().map(String::as_str).collect();
    assert_eq!(names, ["cache", "kinds"]);
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(
        page.contains("what cache is") && page.contains("what kinds is"),
        "{page}"
    );
}

#[test]
fn the_book_shows_the_saved_results() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = tempfile::tempdir().unwrap();
    let pages = [super::PAGE, super::GUIDE[0].1, super::GUIDE[1].1];
    for page in pages {
        let copy = root.path().join(page);
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        std::fs::copy(committed.join(page), copy).unwrap();
    }
    let noted = Results::read(&committed.join(super::FILE)).unwrap();
    for part in <Part as clap::ValueEnum>::value_variants() {
        publish(root.path(), *part, &noted).unwrap();
    }
    for page in pages {
        let read = |root: &Path| std::fs::read_to_string(root.join(page)).unwrap();
        assert!(
            read(root.path()) == read(&committed),
            "{page} shows other figures than {}: write it with --write",
            super::FILE
        );
    }
    let Ok(plots) = std::fs::read_dir(root.path().join(super::PLOTS)) else {
        return;
    };
    for plot in plots {
        let name = plot.unwrap().file_name();
        let plot = committed.join(super::PLOTS).join(&name);
        assert!(plot.exists(), "{} is missing", plot.display());
    }
}

#[test]
fn a_plot_has_a_line_per_peer_and_a_point_per_figure() {
    let scaled = |objects: u64| {
        at(
            objects,
            figure("scaling/seconds", objects as f64 / 1e4, 9.0),
        )
    };
    let plots = draw::plots("scaling");
    let drawn = plots[0]
        .draw(&[scaled(1000), scaled(10_000), scaled(200_000)])
        .unwrap()
        .unwrap();
    assert!(
        drawn.starts_with("<svg") && drawn.ends_with("</svg>\n"),
        "{drawn}"
    );
    for word in ["Steersman", "kube-runtime", "200,000", plots[0].title] {
        assert!(drawn.contains(word), "{word} is missing in {drawn}");
    }
    assert_eq!(drawn.matches("<circle").count(), 6);
    // Figures of another plot, or a single point, draw nothing.
    assert_eq!(plots[1].draw(&[scaled(1000), scaled(2000)]).unwrap(), None);
    assert_eq!(
        plots[0]
            .draw(&[at(1000, alone("scaling/seconds", 1.0))])
            .unwrap(),
        None
    );
}

#[test]
fn lines_of_options_are_named_after_the_option() {
    let option = |name: &str, objects: u64, megabytes| Figure {
        what: name.to_owned(),
        ..at(
            objects,
            alone(&format!("options/resident/{name}"), megabytes),
        )
    };
    let figures = [
        option("defaults", 1000, 30.0),
        option("defaults", 100_000, 300.0),
        option("metadata", 1000, 10.0),
        option("metadata", 100_000, 0.0),
    ];
    let drawn = draw::plots("options")[0].draw(&figures).unwrap().unwrap();
    for word in ["defaults", "metadata"] {
        assert!(drawn.contains(word), "{word} is missing in {drawn}");
    }
    assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
}

#[test]
fn a_machine_is_described_by_the_facts_that_are_known() {
    let cpus = "processor\t: 0\nmodel name\t: Fast One\nprocessor\t: 1\nmodel name\t: Fast One\n";
    let lines = machine::describe(2, cpus, "MemTotal:       24000000 kB\n");
    assert_eq!(
        lines,
        format!("2 cores, Fast One, {}, 25 GB", std::env::consts::ARCH)
    );
    assert_eq!(
        machine::describe(1, "", ""),
        format!("1 core, {}", std::env::consts::ARCH)
    );
    assert_eq!(machine::today().len(), "2026-11-22".len());
}

#[test]
fn tables_that_need_the_embedded_server_are_refused_with_against() {
    let against = Some("kubeconfig".into());
    let all = parts(&Bench {
        against: against.clone(),
        ..Bench::default()
    })
    .unwrap();
    assert!(all.contains(&Part::Cache) && !all.contains(&Part::Server));
    let asked = Bench {
        against,
        only: vec![Part::Server],
        ..Bench::default()
    };
    assert!(parts(&asked).unwrap_err().contains("`server`"));
    let own = Bench {
        only: vec![Part::Server],
        ..Bench::default()
    };
    assert_eq!(parts(&own).unwrap(), [Part::Server]);
}
