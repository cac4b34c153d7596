//! The rule `hygiene`: no ignored tests, no allowed lints, no postponed work, and no home folders.

use super::lexer::{Source, Token, close, is_word, tokens};
use super::tree::{File, Tree, Violation};

/// Home folders. Each is written in two pieces so that this file passes the rule itself.
const HOMES: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];

/// Words in comments that postpone work.
const LATER: &[&str] = &["TODO", "FIXME"];

/// Checks attributes and comments of every Rust file, and the text of every file for home folders.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let rust = tree.rust().flat_map(check_rust);
    rust.chain(tree.files().flat_map(homes)).collect()
}

fn check_rust(file: &File) -> Vec<Violation> {
    let source = Source::of(&file.text);
    let mut found = attributes(file, &tokens(&source.code));
    for token in tokens(&source.comments) {
        if LATER.contains(&token.text) {
            let problem = format!("a comment says `{}`", token.text);
            let remedy = "do the work, or state what is absent and why";
            found.push(file.violation(token.at, problem, remedy));
        }
    }
    for (at, phrase) in source.comments.match_indices("for now") {
        let problem = format!("a comment says `{phrase}`");
        found.push(file.violation(at, problem, "state what holds, and why"));
    }
    found
}

fn attributes(file: &File, list: &[Token<'_>]) -> Vec<Violation> {
    let text = |index: usize| list.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    for index in (0..list.len()).filter(|index| text(*index) == "#") {
        let open = index + if text(index + 1) == "!" { 2 } else { 1 };
        if text(open) != "[" {
            continue;
        }
        // `cfg_attr(…, ignore)` ignores a test, too.
        let conditional = text(open + 1) == "cfg_attr";
        let end = close(list, open);
        let last = if conditional { end } else { end.min(open + 2) };
        for name in &list[open..last] {
            let (problem, remedy) = match name.text {
                "ignore" => ("a test is ignored", "make it pass, or delete it"),
                "allow" => (
                    "a lint is allowed",
                    "write `#[expect(…, reason = \"…\")]`, or follow the lint",
                ),
                _ => continue,
            };
            found.push(file.violation(name.at, problem, remedy));
        }
    }
    found
}

fn homes(file: &File) -> Vec<Violation> {
    let starts = HOMES.iter().flat_map(|home| file.text.match_indices(home));
    let free = starts.filter(|(at, _)| {
        let before = file.text[..*at].chars().next_back();
        !before.is_some_and(|char| is_word(char) || matches!(char, '/' | '.' | '~' | '-' | '}'))
    });
    free.map(|(at, home)| {
        let problem = format!("names a folder below `{home}`");
        let remedy = "take the path from the environment or relative to the package";
        file.violation(at, problem, remedy)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::{HOMES, Tree, check};

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    const PATH: &str = "crates/framework/steersman-x/tests/it/a.rs";

    #[test]
    fn ignored_tests_allowed_lints_and_postponed_work_fail() {
        for text in [
            "#[test]\n#[ignore]\nfn f() {}",
            "#[ignore = \"slow\"]\nfn f() {}",
            "#[cfg_attr(unix, ignore)]\nfn f() {}",
            "#[allow(dead_code)]\nfn f() {}",
            "#![allow(dead_code)]",
            "#[cfg_attr(unix, allow(dead_code))]\nfn f() {}",
            "// TODO: more.",
            "/* FIXME */",
            "// Enough for now.",
        ] {
            assert_eq!(count(PATH, text), 1, "{text}");
        }
    }

    #[test]
    fn the_same_words_in_other_positions_pass() {
        for text in [
            "#[expect(dead_code, reason = \"allow(x) and ignore\")]\nfn f() {}",
            "fn ignore() { allow[ignore]; let x = \"#[ignore] TODO\"; }",
            "// `#[ignore]` and `#[allow(x)]` are refused, TODOS too.",
        ] {
            assert_eq!(count(PATH, text), 0, "{text}");
        }
    }

    #[test]
    fn home_folders_fail_in_every_file() {
        for home in HOMES {
            for path in [PATH, "docs/testing.md", ".ci/run"] {
                assert_eq!(
                    count(path, &format!("let x = \"{home}me/x\";")),
                    1,
                    "{home} {path}"
                );
                assert_eq!(
                    count(path, &format!("let x = \"$TMP/a{home}me/x\";")),
                    0,
                    "{home} {path}"
                );
            }
        }
    }
}
