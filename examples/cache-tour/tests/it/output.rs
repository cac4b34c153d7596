//! The output of the program: its figures agree with its text.

use std::process::Command;

const GUIDE: &str = include_str!("../../../../crates/framework/steersman/guide/memory.md");

/// Returns the cells of the table row that begins with `begin`, except the first cell.
fn row<'a>(page: &'a str, begin: &str) -> Vec<&'a str> {
    let line = page
        .lines()
        .find(|line| line.trim_start().starts_with(begin));
    let line = line.unwrap_or_else(|| panic!("no row {begin:?} in\n{page}"));
    let cells = line.trim_start()[begin.len()..].split("   ");
    cells
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect()
}

fn number(page: &str, begin: &str) -> u64 {
    let cells = row(page, begin);
    let last = cells.last().and_then(|cell| cell.parse().ok());
    last.unwrap_or_else(|| panic!("no number in the row {begin:?} of\n{page}"))
}

/// Splits the output into pages, each of which starts with its title.
fn pages(said: &str) -> Vec<String> {
    said.split("\n\n").fold(Vec::new(), |mut pages, part| {
        let titled = part
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with('─'));
        if titled {
            pages.push(String::new());
        }
        if let Some(page) = pages.last_mut() {
            // Lines of a quote that were broken are joined again.
            page.push_str(&part.replace("\n    │ ", " "));
            page.push_str("\n\n");
        }
        pages
    })
}

#[test]
fn the_figures_of_every_stop_agree_with_its_text() {
    let output = Command::new(env!("CARGO_BIN_EXE_cache-tour"))
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{problem}");
    assert_eq!(problem, "", "a quiet run says nothing else");

    let mut pages = pages(&said);
    assert_eq!(pages.len(), 8, "{said}");
    let memory = pages.pop().unwrap();
    let [welcome, scope, indexes, metadata, views, own, degraded] = pages.as_slice() else {
        panic!("{said}");
    };
    assert!(welcome.contains("450 Pods on 30 nodes"), "{welcome}");

    // Objects that the server's selector excludes do not count as absent.
    assert!(
        scope.contains("watch pods            web         tier=front      200       1"),
        "{scope}"
    );
    assert_eq!(row(scope, "pods")[0], "200 of 450");
    assert!(
        scope.contains("(it may exist: this kind is cached by labels"),
        "{scope}"
    );
    assert!(scope.contains("not in namespace \"batch\""), "{scope}");

    assert_eq!(number(indexes, ".by(&NODE, \"node-7\")"), 15);
    assert_eq!(
        number(indexes, ".by(&NODE, \"node-9\").index(\"tier\", \"front\")"),
        15
    );
    assert_eq!(
        number(indexes, ".controlled_by(uid of ReplicaSet shop/shop)"),
        150
    );
    assert!(
        indexes.contains("All of this sent 0 requests."),
        "{indexes}"
    );

    let alone = metadata.find("watch pods, metadata alone").unwrap();
    let whole = metadata.rfind("watch pods  ").unwrap();
    assert!(alone < whole, "{metadata}");

    assert_eq!(views.matches("watch pods").count(), 1, "{views}");
    assert!(views.contains("all four agree"), "{views}");

    assert_eq!(row(own, "another key"), ["nothing", "0.0 s"], "{own}");
    let careless = row(own, "the key that wrote, with ReadConsistency::None");
    assert_eq!(careless, ["nothing", "0.0 s"], "{own}");
    let careful = row(own, "the key that wrote  ");
    assert_eq!(careful, ["the object", "0.0 s"], "{own}");
    let listing = row(own, "a list of the key that wrote");
    assert_eq!(listing, ["the object", "2.0 s"], "{own}");

    assert!(
        degraded.contains("install the CustomResourceDefinition"),
        "{degraded}"
    );
    assert!(degraded.contains("degraded: not_served"), "{degraded}");
    assert!(degraded.contains("a voyage to Ithaca"), "{degraded}");
    check_figures(&memory);
}

fn check_figures(memory: &str) {
    // The fewer objects a cache requests, the less memory it uses.
    let figures = [
        "as Pod, all of them packed",
        "as a struct with one field",
        "as Pod, one of three selected by label",
        "as Pod ",
        "as Pod and as metadata",
        "as Pod, with managedFields",
    ];
    let figures = figures.map(|way| number(memory, way));
    assert!(figures.is_sorted(), "{memory}");

    // The tour prints the first table of the guide.
    let page = GUIDE.split("## Memory per process").next().unwrap_or(GUIDE);
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let (way, bytes) = (cells.next()?, cells.next()?.replace(',', ""));
        Some((way, bytes.parse::<u64>().ok()?))
    });
    let rows: Vec<(&str, u64)> = rows.collect();
    assert_eq!(rows.len(), 9, "the page has a row for each of {memory}");
    for (way, stated) in rows {
        let found = number(memory, &format!("{way}  "));
        // The bytes vary a little with the layout of structs by the compiler.
        assert!(
            found.abs_diff(stated) * 10 < stated,
            "{way}: {stated} on the page, {found} found"
        );
    }
}
