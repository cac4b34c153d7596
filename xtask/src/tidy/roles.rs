//! The rule `roles`: the first line of a file states its role, and the role limits its content.

use super::lexer::{Source, Token, tokens};
use super::tree::{File, Tree, Violation};

/// Checks every Rust file: its first line, and, in crates and examples, its role.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    tree.rust().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let first = file.text.lines().next().unwrap_or_default();
    let Some(summary) = first
        .strip_prefix("//! ")
        .filter(|summary| !summary.trim().is_empty())
    else {
        let remedy = if has_role(file) {
            TAG
        } else {
            "begin with `//!` and one sentence"
        };
        let problem = "the first line does not state the purpose of the file";
        return vec![file.violation(0, problem, remedy)];
    };
    if !has_role(file) {
        return Vec::new();
    }
    let tag = summary
        .split_once(": ")
        .filter(|(_, sentence)| !sentence.trim().is_empty());
    let code = Source::of(&file.text).production();
    let tokens = tokens(&code);
    match tag.unwrap_or_default().0 {
        "Words" => waits(file, &tokens),
        "Machine" => [waits(file, &tokens), locks(file, &tokens)].concat(),
        "Room" => items(file, &tokens),
        "Driver" | "Handle" => Vec::new(),
        _ => vec![file.violation(0, "the first line names no role", TAG)],
    }
}

const TAG: &str = "begin with `//! Words: …`, `//! Machine: …`, `//! Driver: …`, `//! Handle: …` or, \
                   where it only declares and re-exports modules, `//! Room: …`";

/// Packages without roles. The example `greeter` is what users get from `cargo steersman new`, and their crates need none.
const WITHOUT_ROLES: [&str; 2] = ["xtask", "examples/greeter"];

/// Returns whether a file states a role: crate roots, programs and tests do not.
fn has_role(file: &File) -> bool {
    let package = file.package();
    let has_none = package.is_some_and(|package| WITHOUT_ROLES.contains(&package));
    let is_root = matches!(file.name(), "lib.rs" | "main.rs") || file.path.contains("/src/bin/");
    file.is_production() && !has_none && !is_root
}

/// Finds waiting and clocks in files of words and machines.
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
        let problem = format!("a words or machine file contains `{forbidden}`");
        let remedy =
            "take `now` or the awaited value as an argument, or move the waiting code to a driver";
        found.push(file.violation(token.at, problem, remedy));
    }
    found
}

/// Finds locks in files of machines: the caller of a machine has exclusive access.
fn locks(file: &File, tokens: &[Token<'_>]) -> Vec<Violation> {
    let problem = "a machine file names the lock";
    let remedy = "tag the file `Handle`, or move the locked state to a handle";
    let names = ["parking_lot", "Mutex", "RwLock"];
    first_of(&names, file, tokens, problem, remedy)
}

/// Finds items other than modules in a room.
fn items(file: &File, tokens: &[Token<'_>]) -> Vec<Violation> {
    const ITEMS: &[&str] = &[
        "fn", "struct", "enum", "trait", "impl", "const", "static", "type", "macro_rules", "union",
    ];
    let remedy = "move it to a file with another role, or change the role of this file";
    first_of(ITEMS, file, tokens, "a room holds", remedy)
}

fn first_of(
    names: &[&str],
    file: &File,
    tokens: &[Token<'_>],
    problem: &str,
    remedy: &str,
) -> Vec<Violation> {
    let mut found = tokens.iter().filter(|token| names.contains(&token.text));
    let violation = found.next().map(|token| {
        let problem = format!("{problem} `{}`", token.text);
        file.violation(token.at, problem, remedy)
    });
    violation.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    /// Returns the lines of the violations in a file with that text.
    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::of(&[(path, text)]))
            .iter()
            .map(|violation| violation.line)
            .collect()
    }

    const PATH: &str = "crates/framework/steersman-x/src/folder/file.rs";
    const NONE: [usize; 0] = [];

    #[test]
    fn a_first_line_without_a_role_fails() {
        for text in [
            "", "use a;", "//! Keeps things.", "//! words: keeps things.", "//! Words:", "//!",
        ] {
            assert_eq!(lines(PATH, text), [1], "{text}");
        }
        assert_eq!(lines("xtask/src/main.rs", "fn main() {}"), [1]);
        assert_eq!(
            lines("crates/framework/steersman-x/tests/it/main.rs", "mod a;"),
            [1]
        );
        assert_eq!(
            lines("examples/x-operator/src/site.rs", "//! Makes sites."),
            [1]
        );
    }

    #[test]
    fn crate_roots_programs_and_tests_need_no_role() {
        for path in [
            "crates/framework/steersman-x/src/lib.rs",
            "examples/x-operator/src/main.rs",
            "crates/framework/steersman-x/src/folder/tests.rs",
            "crates/framework/steersman-x/src/loom_tests.rs",
            "crates/framework/steersman-x/tests/it/main.rs",
            "crates/framework/steersman-x/benches/a.rs",
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
    fn words_and_machines_that_wait_or_read_a_clock_fail() {
        for token in [
            "f().await", "f()\n.await", "use tokio::time;", "use tokio_util::x;",
            "async fn f() {}", "async move {}", "Instant::now()", "SystemTime::now()",
            "Timestamp::now()",
        ] {
            for role in ["Words", "Machine"] {
                let text = format!("//! {role}: a job.\n\n{token}");
                assert_eq!(lines(PATH, &text).len(), 1, "{text}");
            }
            for role in ["Driver", "Handle"] {
                let text = format!("//! {role}: a job.\n\n{token}");
                assert_eq!(lines(PATH, &text), NONE, "{text}");
            }
        }
    }

    #[test]
    fn comments_literals_and_tests_of_a_machine_may_wait() {
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
            let text = |role: &str| format!("//! {role}: a job.\n\n{token}");
            assert_eq!(lines(PATH, &text("Machine")).len(), 1, "{token}");
            for role in ["Handle", "Driver"] {
                assert_eq!(lines(PATH, &text(role)), NONE, "{token}");
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
