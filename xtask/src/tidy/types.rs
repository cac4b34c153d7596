//! The rule `types`: a crate declares each type name once, and no type is named by a metaphor.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Source, Token, is_word, line, tokens};
use super::tree::{File, Tree, Violation};
use super::wording::is_plain;

/// The name of this rule.
pub(crate) const RULE: &str = "types";

/// Names that several types of one crate still share, as lines of a package and a name.
const KNOWN: &str = include_str!("types/known.txt");

/// Metaphors that are no names of types in finished packages (`PLAIN` of the rule `wording`).
const METAPHORS: &[&str] = &[
    "Asks",
    "Bell",
    "Door",
    "Gate",
    "Glimpse",
    "Inlet",
    "Leavers",
    "Place",
    "Probation",
    "Ring",
    "Shelf",
    "Shown",
    "Sight",
];

/// A declaration of a struct, enum, union, trait or type alias at the level of a module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Declaration<'a> {
    /// The name of the type.
    pub(crate) name: &'a str,
    /// The offset of the name.
    pub(crate) at: usize,
}

/// Checks the production code of every package.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, KNOWN)
}

fn check_with(tree: &Tree, known: &str) -> Vec<Violation> {
    let known: BTreeSet<(&str, &str)> = known
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let mut found = stale(&known);
    let mut first: BTreeMap<(&str, String), &File> = BTreeMap::new();
    for file in tree.rust().filter(|file| is_production(file)) {
        let Some(package) = file.package() else {
            continue;
        };
        let code = Source::of(&file.text).production();
        for Declaration { name, at } in declarations(&tokens(&code)) {
            if is_plain(&file.path) && METAPHORS.contains(&name) {
                let problem = format!("a type is named `{name}`");
                found.push(complain(file, at, problem, "use the word of the field"));
            }
            let other = *first.entry((package, name.to_owned())).or_insert(file);
            // Two types of one name in one file are alternatives under `cfg`.
            if other.path != file.path && !known.contains(&(package, name)) {
                let problem = format!("declares `{name}`, as {} does", other.path);
                found.push(complain(
                    file,
                    at,
                    problem,
                    "name each of the two types after its own idea",
                ));
            }
        }
    }
    found
}

/// Finds allowances for packages that are finished: these have none.
fn stale(known: &BTreeSet<(&str, &str)>) -> Vec<Violation> {
    let finished = known
        .iter()
        .filter(|(package, _)| is_plain(&format!("{package}/src/")));
    finished
        .map(|(package, name)| {
            let problem = format!("still allows two types `{name}` in {package}");
            let way_out = "delete the line: the package is finished";
            Violation::new(RULE, "xtask/src/tidy/types/known.txt", 0, problem, way_out)
        })
        .collect()
}

/// Returns whether the file is production code of a package.
fn is_production(file: &File) -> bool {
    let in_src = file
        .package()
        .is_some_and(|package| file.path[package.len()..].starts_with("/src/"));
    in_src && !file.is_test()
}

/// Returns the types that a file declares outside functions, impls, traits and macros.
pub(crate) fn declarations<'a>(list: &[Token<'a>]) -> Vec<Declaration<'a>> {
    let text = |index: usize| list.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    // The open brackets; `true` stands for the body of an inline module.
    let mut open: Vec<bool> = Vec::new();
    for (index, token) in list.iter().enumerate() {
        match token.text {
            "{" => open.push(index > 1 && text(index - 2) == "mod"),
            "(" | "[" => open.push(false),
            "}" | ")" | "]" => {
                open.pop();
            }
            "struct" | "enum" | "union" | "trait" | "type" if open.iter().all(|module| *module) => {
                let Some(name) = list.get(index + 1) else {
                    continue;
                };
                if name
                    .text
                    .starts_with(|char: char| is_word(char) && !char.is_lowercase())
                {
                    found.push(Declaration {
                        name: name.text,
                        at: name.at,
                    });
                }
            }
            _ => {}
        }
    }
    found
}

fn complain(file: &File, at: usize, problem: String, way_out: &str) -> Violation {
    Violation::new(RULE, &file.path, line(&file.text, at), problem, way_out)
}

#[cfg(test)]
mod tests {
    use super::{Tree, check_with};

    fn messages(files: &[(&str, &str)], known: &str) -> Vec<String> {
        let found = check_with(&Tree::of(files), known);
        found.iter().map(ToString::to_string).collect()
    }

    const A: &str = "crates/steersman-x/src/a.rs";
    const B: &str = "crates/steersman-x/src/b.rs";

    #[test]
    fn two_types_of_one_name_in_one_crate_fail() {
        for (first, second) in [
            ("pub struct Change;", "enum Change {}"),
            (
                "trait Change {}",
                "mod inner { pub(crate) type Change = u8; }",
            ),
            (
                "struct Change { a: u8 }",
                "fn f() {}\nunion Change { a: u8 }",
            ),
        ] {
            let said = messages(&[(A, first), (B, second)], "");
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].contains("declares `Change`, as crates/steersman-x/src/a.rs does"));
        }
    }

    #[test]
    fn types_of_tests_functions_impls_and_other_crates_pass() {
        for second in [
            "#[cfg(test)]\nmod tests { struct Change; }",
            "fn f() { struct Change; }",
            "impl Iterator for X { type Change = u8; }",
            "macro_rules! m { () => { struct Change; } }",
            "// struct Change;",
        ] {
            let said = messages(&[(A, "struct Change;"), (B, second)], "");
            assert_eq!(said, Vec::<String>::new(), "{second}");
        }
        for path in [
            A,
            "crates/steersman-y/src/a.rs",
            "crates/steersman-x/tests/it/a.rs",
        ] {
            let said = messages(&[(A, "struct Change;"), (path, "struct Change;")], "");
            assert_eq!(said, Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn a_known_name_passes_and_is_refused_for_a_finished_package() {
        let files = [(A, "struct Change;"), (B, "struct Change;")];
        let known = "crates/steersman-x Change\n";
        assert_eq!(messages(&files, known), Vec::<String>::new());
        let said = messages(&[], "xtask Change\n");
        assert!(said.len() == 1 && said[0].contains("known.txt"), "{said:?}");
    }

    #[test]
    fn a_metaphor_fails_in_a_finished_package() {
        assert_eq!(messages(&[("xtask/src/a.rs", "struct Door;")], "").len(), 1);
        assert_eq!(messages(&[(A, "struct Door;")], ""), Vec::<String>::new());
    }
}
