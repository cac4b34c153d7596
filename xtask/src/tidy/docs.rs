//! The rule `docs`: documents name only paths that exist, and the architecture page names every crate.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{is_word, offset, without};
use super::tree::{File, Tree, Violation, crate_name};

const ARCHITECTURE: &str = "docs/architecture.md";
const SUMMARY: &str = "docs/SUMMARY.md";

/// The folder of each crate, by its name.
type Crates<'tree> = BTreeMap<&'tree str, &'tree str>;

/// A code span that starts with one of these is a path of this repository.
const ROOTS: &[&str] = &["crates/", "examples/", "xtask/", "docs/", ".ci/"];

/// Checks the pages below `docs/` and the pages at the root against the tree.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let crates: Crates<'_> = tree
        .manifests()
        .filter_map(|(package, _)| Some((crate_name(package)?, package)))
        .collect();
    let mut found = Vec::new();
    for page in tree.files().filter(|file| is_page(&file.path)) {
        found.extend(paths(tree, page));
        found.extend(crate_names(page, &crates));
        found.extend(modules(tree, page, &crates));
        found.extend(links(tree, page));
    }
    found.extend(summary(tree));
    found.extend(architecture(tree, &crates));
    found
}

fn is_page(path: &str) -> bool {
    path.ends_with(".md") && (path.starts_with("docs/") || !path.contains('/'))
}

/// Finds code spans that name a file or folder that does not exist. A span that ends with `.rs` may
/// name the end of a path.
fn paths(tree: &Tree, page: &File) -> Vec<Violation> {
    let spans = spans(&page.text).filter(|(_, span)| {
        !span.contains(char::is_whitespace) && !span.contains(['*', '<', '{', '$', '…'])
    });
    let missing = spans.filter(|(_, span)| {
        if ROOTS.iter().any(|root| span.starts_with(root)) {
            return match span.split_once(".rs::") {
                Some((file, function)) => !has_function(tree, &format!("{file}.rs"), function),
                None => !tree.has(span),
            };
        }
        span.ends_with(".rs") && !tree.files().any(|file| ends_with(&file.path, span))
    });
    missing
        .map(|(at, span)| {
            let problem = format!("names `{span}`, which does not exist");
            page.violation(at, problem, "name a path that exists")
        })
        .collect()
}

/// Returns whether the file declares that function. Pages name tests as `path/to/file.rs::name`.
fn has_function(tree: &Tree, file: &str, function: &str) -> bool {
    let declared = format!("fn {function}(");
    let file = tree.get(file);
    file.is_some_and(|file| file.text.contains(&declared))
}

fn ends_with(path: &str, end: &str) -> bool {
    path.strip_suffix(end)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// Finds words that start with `steersman-` and name no crate. The changelog may name crates of the past.
fn crate_names(page: &File, crates: &Crates<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    if page.path == "CHANGELOG.md" {
        return found;
    }
    for (at, name) in words(&page.text).filter(|(_, word)| word.starts_with("steersman-")) {
        if !crates.contains_key(name) {
            let problem = format!("names a crate `{name}`");
            found.push(page.violation(at, problem, "name a crate that exists"));
        }
    }
    found
}

/// Finds code spans such as `steersman_informer::store::Store` in which the crate or a module does not exist.
fn modules(tree: &Tree, page: &File, crates: &Crates<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, span) in spans(&page.text).filter(|(_, span)| span.starts_with("steersman")) {
        let Some((first, rest)) = span.split_once("::") else {
            continue;
        };
        let name = first.replace('_', "-");
        let is_lower = |char: char| is_word(char) && !char.is_uppercase();
        let parts = rest
            .split("::")
            .take_while(|part| !part.is_empty() && part.chars().all(is_lower));
        let module = parts.collect::<Vec<_>>().join("/");
        let is_call = rest.contains('(');
        let exists = crates.get(name.as_str()).is_some_and(|folder| {
            module.is_empty()
                || is_call
                || name == "steersman"
                || tree.has(&format!("{folder}/src/{module}.rs"))
        });
        if !exists {
            let problem = format!("names `{span}`, which does not exist");
            found.push(page.violation(at, problem, "name a module that exists"));
        }
    }
    found
}

/// Finds relative links that lead to no file.
fn links(tree: &Tree, page: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    for (at, _) in page.text.match_indices("](") {
        let rest = &page.text[at + 2..];
        let Some(end) = rest.find(')') else { continue };
        let target = rest[..end].split(['#', ' ']).next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let exists = resolve(&page.path, target).is_some_and(|path| tree.has(&path));
        if !exists {
            let problem = format!("links to `{target}`, which does not exist");
            found.push(page.violation(at, problem, "link to a file that exists"));
        }
    }
    found
}

/// Returns the path that a relative link leads to, or `None` if it leaves the repository.
fn resolve(page: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Finds pages that the summary of the book does not list: no reader would find them.
fn summary(tree: &Tree) -> Vec<Violation> {
    let Some(summary) = tree.get(SUMMARY) else {
        return vec![missing(SUMMARY)];
    };
    let pages = tree.files().filter_map(|file| {
        let page = file
            .path
            .strip_prefix("docs/")
            .filter(|page| page.ends_with(".md"))?;
        (page != "SUMMARY.md" && !summary.text.contains(&format!("]({page})"))).then_some(page)
    });
    pages
        .map(|page| {
            let problem = format!("does not list `{page}`");
            summary.violation(0, problem, "list the page in the summary")
        })
        .collect()
}

/// Finds crates that the architecture page does not name.
fn architecture(tree: &Tree, crates: &Crates<'_>) -> Vec<Violation> {
    let Some(page) = tree.get(ARCHITECTURE) else {
        return vec![missing(ARCHITECTURE)];
    };
    let named: BTreeSet<&str> = words(&page.text).map(|(_, word)| word).collect();
    crates
        .keys()
        .filter(|name| !named.contains(*name))
        .map(|name| {
            let problem = format!("does not name the crate `{name}`");
            page.violation(0, problem, "describe the crate")
        })
        .collect()
}

/// Returns the code spans of a page with their offsets; fenced blocks are left out.
pub(crate) fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    let lines = text.split_inclusive('\n').filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    });
    let spans = lines.flat_map(|line| line.split('`').skip(1).step_by(2));
    spans.map(move |span| (offset(text, span), span))
}

/// Returns a text in which fenced blocks and code spans are replaced by blanks.
pub(crate) fn without_code(text: &str) -> String {
    let mut fenced = false;
    let blocks = text.split_inclusive('\n').filter(|line| {
        let start =
            line.trim_start_matches(|char: char| char.is_whitespace() || "/!".contains(char));
        let is_fence = start.starts_with("```");
        fenced ^= is_fence;
        fenced || is_fence
    });
    let spans = spans(text).map(|(_, span)| span);
    without(text, spans.chain(blocks))
}

/// Returns the words of a text with their offsets; a hyphen is part of a word.
fn words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let words = text.split(|char: char| !(is_word(char) || char == '-'));
    words.map(move |word| (offset(text, word), word.trim_end_matches('-')))
}

fn missing(path: &str) -> Violation {
    Violation::new(path, 0, "does not exist", "write the page")
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    /// Returns the violations of a tree in which the architecture page ends with `text`.
    fn messages(text: &str) -> Vec<String> {
        let page = format!("The crates: steersman-x, `steersman`.\n{text}\n");
        let tree = Tree::of(&[
            ("crates/framework/steersman-x/Cargo.toml", ""),
            (
                "crates/framework/steersman-x/src/store/index.rs",
                "async fn it_exists() {}",
            ),
            ("crates/framework/steersman/Cargo.toml", ""),
            ("docs/architecture.md", &page),
            ("docs/decisions/0001-a.md", ""),
            (
                "docs/SUMMARY.md",
                "- [A](architecture.md)\n- [B](decisions/0001-a.md)",
            ),
        ]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("docs"))
            .collect()
    }

    #[test]
    fn a_page_that_names_a_missing_path_fails() {
        for text in [
            "See `crates/framework/steersman-x/src/gone.rs`.",
            "See `crates/framework/steersman-y`.",
            "See `crates/framework/steersman-x/src/gone.rs::it_exists`.",
            "See `crates/framework/steersman-x/src/store/index.rs::it_is`.",
            "See `store/gone.rs`.",
            "See `dex.rs`.",
            "The crate steersman-y does it.",
            "See `steersman_x::gone::Name`.",
            "See `steersman_y::Name`.",
            "See [there](../crates/framework/steersman-x/src/gone.rs).",
            "See [there](gone.md#part).",
            "See [there](../../outside.md).",
        ] {
            let said = messages(text);
            assert!(
                !said.is_empty() && said.iter().all(|line| line.contains(".md:2: [docs]")),
                "{text}: {said:?}"
            );
        }
    }

    #[test]
    fn a_page_that_names_existing_paths_passes() {
        for text in [
            "See `crates/framework/steersman-x/src/store/index.rs` and `crates/framework/steersman-x/`.",
            "See `crates/framework/steersman-x/src/store/index.rs::it_exists`.",
            "See `store/index.rs` and `index.rs`.",
            "See `steersman_x::store::index::Index` and `steersman_x::Name`.",
            "See [there](../crates/framework/steersman-x/src/store/index.rs), [here](#part), [far](https://a.b/c).",
            "```\nsee `gone.rs`\n```",
            "Any `crates/*/src/gone.rs` or `cargo run gone.rs`.",
        ] {
            assert_eq!(messages(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_crate_or_page_that_no_page_names_fails() {
        let tree = Tree::of(&[
            ("crates/framework/steersman-x/Cargo.toml", ""),
            ("docs/architecture.md", "nothing"),
            ("docs/SUMMARY.md", ""),
        ]);
        let said: Vec<String> = check(&tree)
            .iter()
            .map(|violation| violation.of_rule("docs"))
            .collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(check(&Tree::default()).len(), 2);
    }
}
