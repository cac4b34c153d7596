//! The rule `glossary`: every word of the glossary is the name of a type, function or module.

use std::collections::BTreeSet;

use super::docs::spans;
use super::lexer::{Source, line, tokens};
use super::tree::{File, Tree, Violation};
use super::types::declarations;

/// The name of this rule.
pub(crate) const RULE: &str = "glossary";

const PAGE: &str = "docs/glossary.md";

/// Checks the entries `- **Word**: …` and the first column of the table against the declarations in
/// crates. Names in parentheses behind the word replace the word.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return vec![Violation::new(RULE, PAGE, 0, "does not exist", "write it")];
    };
    let declared = declared(tree);
    let named = entries(page).chain(columns(page));
    let missing = named.filter(|(_, names)| names.iter().all(|name| !declared.contains(name)));
    missing
        .map(|(at, names)| {
            let problem = format!(
                "no type, function or module is named `{}`",
                names.join("` or `")
            );
            let remedy = "write the name from the code in parentheses behind the word";
            Violation::new(RULE, PAGE, line(&page.text, at), problem, remedy)
        })
        .collect()
}

/// Returns the names of all types, functions and modules that the crates declare outside tests.
fn declared(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let sources = tree
        .rust()
        .filter(|file| file.path.starts_with("crates/") && !file.is_test());
    for file in sources {
        let code = Source::of(&file.text).production();
        let list = tokens(&code);
        names.extend(
            declarations(&list)
                .iter()
                .map(|found| found.name.to_owned()),
        );
        let items = list
            .windows(2)
            .filter(|pair| matches!(pair[0].text, "fn" | "mod"));
        names.extend(items.map(|pair| pair[1].text.to_owned()));
    }
    names
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
    let mut start = 0;
    page.text.split_inclusive('\n').flat_map(move |row| {
        let at = start;
        start += row.len();
        let cell = row.strip_prefix("| ").and_then(|row| row.split('|').next());
        let names = spans(cell.unwrap_or_default());
        names.map(move |(_, span)| (at, vec![span.to_owned()]))
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
        check(&tree).iter().map(ToString::to_string).collect()
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
