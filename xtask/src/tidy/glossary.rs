//! The rule `glossary`: every word of the glossary is the name of a type, function or module, and of one type only.

use std::collections::{BTreeMap, BTreeSet};

use super::docs::spans;
use super::lexer::{Source, offset, tokens};
use super::tree::{File, Tree, Violation, crate_name};
use super::types::declarations;

const PAGE: &str = "docs/glossary.md";

/// The names that the crates declare outside tests.
#[derive(Debug, Default)]
struct Declared<'a> {
    /// The crates that declare a type of each name.
    types: BTreeMap<String, BTreeSet<&'a str>>,
    /// The names of functions and modules.
    items: BTreeSet<String>,
}

/// Checks the entries `- **Word**: …` and the first column of the table against the declarations in
/// crates. Names in parentheses behind the word replace the word.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(PAGE, 0, "does not exist", "write it")];
    };
    let declared = declared(tree);
    let mut found = Vec::new();
    for (at, names) in entries(page).chain(columns(page)) {
        let is_declared = |name| declared.types.contains_key(name) || declared.items.contains(name);
        if !names.iter().any(is_declared) {
            let names = names.join("` or `");
            let problem = format!("no type, function or module is named `{names}`");
            let remedy = "write the name from the code in parentheses behind the word";
            found.push(page.violation(at, problem, remedy));
        }
    }
    for (at, names) in entries(page) {
        for name in names {
            let crates = declared.types.get(&name).into_iter().flatten();
            let crates: Vec<&str> = crates.copied().collect();
            if crates.len() <= 1 {
                continue;
            }
            let problem = format!("types named `{name}` are in {}", crates.join(", "));
            let remedy = "keep the name in one crate, and name the others for what they hold";
            found.push(page.violation(at, problem, remedy));
        }
    }
    found
}

/// Returns the names of all types, functions and modules that the crates declare outside tests.
fn declared(tree: &Tree) -> Declared<'_> {
    let mut declared = Declared::default();
    for file in tree.rust().filter(|file| file.is_production()) {
        let Some(name) = file.package().and_then(crate_name) else {
            continue;
        };
        let code = Source::of(&file.text).production();
        let list = tokens(&code);
        let name = name.strip_prefix("steersman-").unwrap_or(name);
        for found in declarations(&list) {
            let crates = declared.types.entry(found.text.to_owned());
            crates.or_default().insert(name);
        }
        let items = list
            .windows(2)
            .filter(|pair| matches!(pair[0].text, "fn" | "mod"));
        let names = items.map(|pair| pair[1].text.to_owned());
        declared.items.extend(names);
    }
    declared
}

/// Returns the accepted names of each entry, with the offset of the entry.
fn entries(page: &File) -> impl Iterator<Item = (usize, Vec<String>)> {
    page.text.match_indices("\n- **").filter_map(|(at, _)| {
        let entry = page.text[at + 1..].lines().next()?;
        let (word, rest) = entry.strip_prefix("- **")?.split_once("**")?;
        let code = rest
            .strip_prefix(" (")
            .and_then(|rest| rest.split_once("):"));
        let names = match code {
            Some((code, _)) => spans(code).map(|(_, span)| span.to_owned()).collect(),
            None => vec![camel(word), word.to_lowercase().replace(' ', "_")],
        };
        Some((at + 1, names))
    })
}

/// Returns each code span in the first column of a table, with its offset.
fn columns(page: &File) -> impl Iterator<Item = (usize, Vec<String>)> {
    page.text.lines().flat_map(move |row| {
        let cell = row.strip_prefix("| ").and_then(|row| row.split('|').next());
        let names = spans(cell.unwrap_or_default());
        names.map(move |(_, span)| (offset(&page.text, row), vec![span.to_owned()]))
    })
}

/// Returns the name of the type for a word: `resource version` becomes `ResourceVersion`.
fn camel(word: &str) -> String {
    let parts = word.split([' ', '-']).map(|part| {
        let mut chars = part.chars();
        let first = chars.next().into_iter().flat_map(char::to_uppercase);
        first.chain(chars).collect::<String>()
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn messages(page: &str) -> Vec<String> {
        let code = "pub struct ResourceVersion;\nfn linger() {}\nmod fanout;";
        let tree = Tree::of(&[
            ("crates/framework/steersman-x/src/a.rs", code),
            ("docs/glossary.md", page),
        ]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("glossary"))
            .collect()
    }

    #[test]
    fn a_word_that_names_a_type_function_or_module_passes() {
        for page in [
            "\n- **Resource version**: a word.\n",
            "\n- **Linger**: a time.\n",
            "\n- **Fan-out** (`fanout`): a list.\n",
            "| ours | theirs |\n|---|---|\n| `ResourceVersion` | `Gone` |\n",
        ] {
            assert_eq!(messages(page), Vec::<String>::new(), "{page}");
        }
    }

    #[test]
    fn a_word_that_names_types_of_two_crates_fails() {
        let page = ("docs/glossary.md", "\n- **Resource version**: a word.\n");
        let first = (
            "crates/framework/steersman-x/src/a.rs",
            "struct ResourceVersion;",
        );
        let re_export = "pub use steersman_x::ResourceVersion;";
        for (path, text, count) in [
            (
                "crates/framework/steersman-x/src/b.rs",
                "enum ResourceVersion {}",
                0,
            ),
            ("crates/server/steersman-y/src/a.rs", re_export, 0),
            (
                "crates/server/steersman-y/tests/it/a.rs",
                "enum ResourceVersion {}",
                0,
            ),
            (
                "crates/server/steersman-y/src/a.rs",
                "enum ResourceVersion {}",
                1,
            ),
            (
                "crates/server/steersman-y/src/a.rs",
                "type ResourceVersion = u8;",
                1,
            ),
        ] {
            let said = check(&Tree::of(&[page, first, (path, text)]));
            assert_eq!(said.len(), count, "{path}: {text}: {said:?}");
        }
    }

    #[test]
    fn a_word_without_a_name_in_the_code_fails() {
        for page in [
            "\n- **Mirror**: a word.\n",
            "\n- **Resource version** (`Gone`): a word.\n",
            "\n\n| `Gone` | theirs |\n",
        ] {
            let said = messages(page);
            assert_eq!(said.len(), 1, "{page}: {said:?}");
        }
        assert_eq!(check(&Tree::default()).len(), 1);
    }
}
