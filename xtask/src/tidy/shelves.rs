//! Shelves: what a file is for stands in its first line, and bounds what may stand in the rest.

use super::lexer::{Source, Token, line, tokens};
use super::tree::{File, Tree, Violation};

/// The name of this rule.
pub(crate) const RULE: &str = "shelves";

/// What a file says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shelf {
    Words,
    Machine,
    Driver,
    Handle,
    Room,
}

const SHELVES: &[(&str, Shelf)] = &[
    ("Words", Shelf::Words),
    ("Machine", Shelf::Machine),
    ("Driver", Shelf::Driver),
    ("Handle", Shelf::Handle),
    ("Room", Shelf::Room),
];

/// Checks every Rust file of the crates and examples; elsewhere only that it says what it is for.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let first = file.text.lines().next().unwrap_or_default();
    let Some(job) = first
        .strip_prefix("//! ")
        .filter(|job| !job.trim().is_empty())
    else {
        let way_out = if is_shelved(file) {
            TAG
        } else {
            "begin with `//!` and one sentence"
        };
        let problem = "the first line does not say what the file is for";
        return vec![complain(file, 1, problem, way_out)];
    };
    if !is_shelved(file) {
        return Vec::new();
    }
    let tag = job
        .split_once(": ")
        .filter(|(_, sentence)| !sentence.trim().is_empty());
    let shelf = tag.and_then(|(tag, _)| SHELVES.iter().find(|(name, _)| *name == tag));
    let Some((_, shelf)) = shelf else {
        return vec![complain(file, 1, "the first line names no shelf", TAG)];
    };
    let source = Source::of(&file.text);
    let code = source.production();
    let tokens = tokens(&code);
    match shelf {
        Shelf::Words => waits(file, &tokens),
        Shelf::Machine => [waits(file, &tokens), locks(file, &tokens)].concat(),
        Shelf::Room => content(file, &tokens),
        Shelf::Driver | Shelf::Handle => Vec::new(),
    }
}

const TAG: &str = "begin with `//! Words: …`, `//! Machine: …`, `//! Driver: …`, `//! Handle: …` or, \
                   where it only declares and re-exports modules, `//! Room: …`";

/// Crate roots, programs and tests carry no tag.
fn is_shelved(file: &File) -> bool {
    let in_src = file.package().is_some_and(|package| {
        package != "xtask" && file.path[package.len()..].starts_with("/src/")
    });
    let is_root = matches!(file.name(), "lib.rs" | "main.rs") || file.path.contains("/src/bin/");
    in_src && !is_root && !file.is_test()
}

/// Words and machines neither wait nor read a clock.
fn waits(file: &File, tokens: &[Token<'_>]) -> Vec<Violation> {
    let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        let next = text(index + 1);
        let forbidden = match token.text {
            "." if next == "await" => ".await",
            "async" if matches!(next, "fn" | "move" | "{") => "async",
            "::" if next == "now" && text(index + 2) == "(" => "::now()",
            "tokio" | "tokio_util" | "tokio_rustls" | "tokio_stream" => token.text,
            _ => continue,
        };
        found.push(complain(
            file,
            line(&file.text, token.at),
            &format!("a words or machine file contains `{forbidden}`"),
            "take `now` or the awaited value as an argument, or move what waits to a driver",
        ));
    }
    found
}

/// A machine holds no lock: its callers have it for themselves.
fn locks(file: &File, tokens: &[Token<'_>]) -> Vec<Violation> {
    let lock = tokens
        .iter()
        .find(|token| matches!(token.text, "parking_lot" | "Mutex" | "RwLock"));
    let complaint = lock.map(|token| {
        complain(
            file,
            line(&file.text, token.at),
            &format!("a machine file names the lock `{}`", token.text),
            "tag the file `Handle`, or move the locked state to a handle",
        )
    });
    complaint.into_iter().collect()
}

/// A room holds modules and nothing else.
fn content(file: &File, tokens: &[Token<'_>]) -> Vec<Violation> {
    const ITEMS: &[&str] = &[
        "fn",
        "struct",
        "enum",
        "trait",
        "impl",
        "const",
        "static",
        "type",
        "macro_rules",
        "union",
    ];
    let item = tokens.iter().find(|token| ITEMS.contains(&token.text));
    let complaint = item.map(|token| {
        complain(
            file,
            line(&file.text, token.at),
            &format!("a room holds `{}`", token.text),
            "move it to a file with a shelf, or name the shelf of this one",
        )
    });
    complaint.into_iter().collect()
}

fn complain(file: &File, line: usize, problem: &str, way_out: &str) -> Violation {
    Violation {
        rule: RULE,
        path: file.path.clone(),
        line,
        problem: problem.to_owned(),
        way_out: way_out.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    /// The lines complained about in a file of that text.
    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    const PATH: &str = "crates/steersman-x/src/room/file.rs";
    const NONE: [usize; 0] = [];

    #[test]
    fn a_missing_or_wrong_tag_fails() {
        for text in [
            "",
            "use a;",
            "//! Keeps things.",
            "//! words: keeps things.",
            "//! Words:",
            "//!",
        ] {
            assert_eq!(lines(PATH, text), [1], "{text}");
        }
        assert_eq!(lines("xtask/src/main.rs", "fn main() {}"), [1]);
        assert_eq!(lines("crates/steersman-x/tests/it/main.rs", "mod a;"), [1]);
        assert_eq!(
            lines("examples/x-operator/src/site.rs", "//! Makes sites."),
            [1]
        );
    }

    #[test]
    fn roots_programs_and_tests_need_no_tag() {
        for path in [
            "crates/steersman-x/src/lib.rs",
            "examples/x-operator/src/main.rs",
            "crates/steersman-x/src/room/tests.rs",
            "crates/steersman-x/src/loom_tests.rs",
            "crates/steersman-x/tests/it/main.rs",
            "crates/steersman-x/benches/a.rs",
            "xtask/src/tidy.rs",
        ] {
            assert_eq!(
                lines(path, "//! Keeps things.\nasync fn f() {}"),
                NONE,
                "{path}"
            );
        }
    }

    #[test]
    fn words_and_machines_that_wait_fail() {
        for token in [
            "f().await",
            "f()\n.await",
            "use tokio::time;",
            "use tokio_util::x;",
            "async fn f() {}",
            "async move {}",
            "Instant::now()",
            "SystemTime::now()",
            "Timestamp::now()",
        ] {
            for shelf in ["Words", "Machine"] {
                let text = format!("//! {shelf}: a job.\n\n{token}");
                assert_eq!(lines(PATH, &text).len(), 1, "{text}");
            }
            for shelf in ["Driver", "Handle"] {
                let text = format!("//! {shelf}: a job.\n\n{token}");
                assert_eq!(lines(PATH, &text), NONE, "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_production_code_passes() {
        let text = "//! Machine: a job with `.await`.\n/// tokio\nfn now() { log(\"tokio\"); self.now() }\n\
                    #[cfg(test)]\nmod tests { async fn f() { tokio::x().await } }\n";
        assert_eq!(lines(PATH, text), NONE);
    }

    #[test]
    fn a_machine_with_a_lock_fails() {
        for token in [
            "use parking_lot::Mutex;",
            "use std::sync::{Arc, RwLock};",
            "struct A {\n    a: Mutex<u8>,\n}",
        ] {
            let text = |shelf: &str| format!("//! {shelf}: a job.\n\n{token}");
            assert_eq!(lines(PATH, &text("Machine")).len(), 1, "{token}");
            for shelf in ["Handle", "Driver"] {
                assert_eq!(lines(PATH, &text(shelf)), NONE, "{token}");
            }
        }
        let tests = "//! Machine: a job.\n#[cfg(test)]\nmod tests { use parking_lot::Mutex; }\n";
        assert_eq!(lines(PATH, tests), NONE);
    }

    #[test]
    fn a_room_with_content_fails() {
        assert_eq!(lines(PATH, "//! Room: a job.\nmod a;\nfn f() {}"), [3]);
        assert_eq!(
            lines(PATH, "//! Room: a job.\nmod a;\npub use self::a::A;"),
            NONE,
        );
    }
}
