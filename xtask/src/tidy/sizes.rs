//! Sizes: a file a reader can hold in mind, its tests not counted.

use super::lexer::{Source, line};
use super::tree::{File, Tree, Violation};

/// The name of this rule.
pub(crate) const RULE: &str = "sizes";

/// The most lines of a Rust file, `#[cfg(test)]` items not counted.
const MOST: usize = 500;

/// Checks every Rust file.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Violation> {
    if file.text.lines().count() <= MOST {
        return None;
    }
    let lines = lines(file);
    (lines > MOST).then(|| Violation {
        rule: RULE,
        path: file.path.clone(),
        line: 0,
        problem: format!("has {lines} lines without its tests, more than {MOST}"),
        way_out: "give a part of it a file and a name of its own".to_owned(),
    })
}

fn lines(file: &File) -> usize {
    let source = Source::of(&file.text);
    let tests: usize = source
        .tests
        .iter()
        .map(|range| {
            line(&file.text, range.end.saturating_sub(1)) - line(&file.text, range.start) + 1
        })
        .sum();
    file.text.lines().count().saturating_sub(tests)
}

#[cfg(test)]
mod tests {
    use super::{MOST, Tree, check};

    fn says(text: &str) -> usize {
        check(&Tree::of(&[("crates/steersman-x/src/a.rs", text)])).len()
    }

    #[test]
    fn a_long_file_fails() {
        assert_eq!(says(&"fn f() {}\n".repeat(MOST + 1)), 1);
        assert_eq!(says(&"fn f() {}\n".repeat(MOST)), 0);
    }

    #[test]
    fn tests_inside_are_not_counted() {
        let code = "fn f() {}\n".repeat(MOST);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(says(&format!("{code}{tests}")), 0);
        assert_eq!(says(&format!("{code}fn g() {{}}\n{tests}")), 1);
    }
}
