//! The size of the guide's operators: the lines and names that their authors write.

use std::collections::BTreeSet;

const FIRST: &str = include_str!("../../guide/first-operator.md");
const COMPARED: &str = include_str!("../../guide/coming-from-controller-runtime.md");

/// Returns the programs of a page: the contents of its blocks that compile and do not run.
fn programs(page: &str) -> Vec<&str> {
    let blocks = page.split("\n```rust,no_run\n").skip(1);
    blocks
        .map(|rest| rest.split("\n```").next().unwrap())
        .collect()
}

/// Returns the number of lines without blank ones and comments, and the names that `use` imports from `steersman`.
fn written(program: &str) -> (usize, BTreeSet<&str>) {
    let lines = program.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    let imports = program.split("use steersman::").skip(1);
    let imports = imports.map(|rest| rest.split(';').next().unwrap());
    let words = imports.flat_map(|import| {
        let list = import.rsplit_once('{').map(|(_, list)| list);
        let list = list.unwrap_or_else(|| import.rsplit("::").next().unwrap());
        list.split([',', '}'])
    });
    let names = words.map(|word| word.trim().trim_end_matches(" as _"));
    (
        lines.count(),
        names.filter(|name| !name.is_empty()).collect(),
    )
}

#[test]
fn the_guide_states_what_its_operators_write() {
    let compared = programs(COMPARED);
    let programs = [programs(FIRST)[0], compared[0], compared[1]];
    let rows = COMPARED.lines().filter(|line| line.contains(" names | "));
    let stated = rows.map(|row| row.split(" | ").nth(1).unwrap().to_owned());
    let counted = programs.map(|program| {
        let (lines, names) = written(program);
        format!("{lines} lines, {} names", names.len())
    });
    assert_eq!(stated.collect::<Vec<_>>(), counted);
}

#[test]
fn a_first_operator_needs_at_most_twelve_names() {
    let (_, names) = written(programs(FIRST)[0]);
    assert!(names.len() <= 12, "{names:?}");
}
