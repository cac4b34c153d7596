//! The rule `sizes`: no Rust file is longer than 500 lines, its tests not counted.

use super::lexer::Source;
use super::tree::{File, Tree, Violation};

/// The largest number of lines of a Rust file, without its `#[cfg(test)]` items.
const MOST: usize = 500;

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().filter_map(check_file).collect()
}

fn check_file(file: &File) -> Option<Violation> {
    let all = file.text.lines().count();
    if all <= MOST {
        return None;
    }
    let tests = Source::of(&file.text).tests.into_iter();
    let of_tests: usize = tests.map(|test| file.text[test].lines().count()).sum();
    let lines = all.saturating_sub(of_tests);
    let problem = format!("has {lines} lines without its tests, more than {MOST}");
    let remedy = "move a part of it to a file with a name of its own";
    (lines > MOST).then(|| Violation::new(&file.path, 0, problem, remedy))
}

#[cfg(test)]
mod tests {
    use super::{MOST, Tree, check};

    fn violations(text: &str) -> usize {
        check(&Tree::of(&[(
            "crates/framework/steersman-x/src/a.rs",
            text,
        )]))
        .len()
    }

    #[test]
    fn a_file_of_501_lines_fails() {
        assert_eq!(violations(&"fn f() {}\n".repeat(MOST + 1)), 1);
        assert_eq!(violations(&"fn f() {}\n".repeat(MOST)), 0);
    }

    #[test]
    fn lines_of_test_modules_are_not_counted() {
        let code = "fn f() {}\n".repeat(MOST);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        assert_eq!(violations(&format!("{code}{tests}")), 0);
        assert_eq!(violations(&format!("{code}fn g() {{}}\n{tests}")), 1);
    }
}
