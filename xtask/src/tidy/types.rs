//! The rule `types`: a crate declares each type name once, and no type is named by a metaphor.

use std::collections::BTreeMap;

use super::lexer::{Source, Token, is_word, tokens};
use super::tree::{File, Tree, Violation};

/// Metaphors that are no names of types.
const METAPHORS: &[&str] = &[
    "Asks", "Bell", "Door", "Gate", "Glimpse", "Inlet", "Leavers", "Place", "Probation", "Ring",
    "Shelf", "Shown", "Sight",
];

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut first: BTreeMap<(&str, String), &File> = BTreeMap::new();
    for file in tree.rust().filter(|file| file.is_production()) {
        let Some(package) = file.package() else {
            continue;
        };
        let code = Source::of(&file.text).production();
        for Token { text: name, at } in declarations(&tokens(&code)) {
            if METAPHORS.contains(&name) {
                let problem = format!("a type is named `{name}`");
                found.push(file.violation(at, problem, "use the word of the field"));
            }
            let other = *first.entry((package, name.to_owned())).or_insert(file);
            // Two types of one name in one file are alternatives under `cfg`.
            if other.path != file.path {
                let problem = format!("declares `{name}`, as {} does", other.path);
                let remedy = "name each of the two types after its own idea";
                found.push(file.violation(at, problem, remedy));
            }
        }
    }
    found
}

/// Returns the names of the types that a file declares outside functions, impls, traits and macros.
pub(crate) fn declarations<'a>(list: &[Token<'a>]) -> Vec<Token<'a>> {
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
                let is_type = |char: char| is_word(char) && !char.is_lowercase();
                let name = list.get(index + 1);
                found.extend(name.filter(|name| name.text.starts_with(is_type)));
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found
            .iter()
            .map(|violation| violation.of_rule("types"))
            .collect()
    }

    const A: &str = "crates/framework/steersman-x/src/a.rs";
    const B: &str = "crates/framework/steersman-x/src/b.rs";

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
            let said = messages(&[(A, first), (B, second)]);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0]
                    .contains("declares `Change`, as crates/framework/steersman-x/src/a.rs does")
            );
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
            let said = messages(&[(A, "struct Change;"), (B, second)]);
            assert_eq!(said, Vec::<String>::new(), "{second}");
        }
        for path in [
            A,
            "crates/framework/steersman-y/src/a.rs",
            "crates/framework/steersman-x/tests/it/a.rs",
        ] {
            let said = messages(&[(A, "struct Change;"), (path, "struct Change;")]);
            assert_eq!(said, Vec::<String>::new(), "{path}");
        }
    }

    #[test]
    fn a_metaphor_fails_as_the_name_of_a_type() {
        assert_eq!(messages(&[(A, "struct Door;")]).len(), 1);
    }
}
