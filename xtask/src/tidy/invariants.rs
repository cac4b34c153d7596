//! The rule `invariants`: every listed invariant is cited in a source file and in a test.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Source, line};
use super::tree::{File, Tree, Violation};

const PAGE: &str = "docs/invariants.md";

/// Prefixes of external identifiers that look like the number of an invariant.
const OTHERS: &[&str] = &[
    "AES", "CVE", "EC", "ES", "GMT", "HTTP", "ISO", "KEP", "RFC", "RSA", "SHA", "TLS", "US", "UTC",
    "UTF",
];

/// The first citation of each id: its path and line.
type Citations = BTreeMap<String, (String, usize)>;

/// Compares the list with the citations in crates, examples and documents.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        let remedy = "list the invariants there";
        return vec![Violation::new(PAGE, 0, "does not exist", remedy)];
    };
    let (listed, mut found) = list(page);
    let mut sources = BTreeSet::new();
    let mut tests = BTreeSet::new();
    let mut cited = Citations::new();
    let mut cite = |file: &File, text: &str| {
        for (at, id) in ids(text) {
            let place = || (file.path.clone(), line(&file.text, at));
            cited.entry(id.to_owned()).or_insert_with(place);
        }
    };
    for file in tree.rust().filter(|file| file.package() != Some("xtask")) {
        let source = Source::of(&file.text);
        for (at, id) in ids(&file.text) {
            let is_test = file.is_test() || source.in_test(at);
            if is_test { &mut tests } else { &mut sources }.insert(id.to_owned());
        }
        cite(file, &source.comments);
    }
    let is_page = |file: &&File| file.path.starts_with("docs/") && file.path.ends_with(".md");
    for page in tree.files().filter(is_page) {
        cite(page, &page.text);
    }
    let at_code = "cite it in a comment at the code that keeps it";
    let in_test = "cite it in a test that fails if it is broken";
    for (id, line) in &listed {
        for (citing, what, remedy) in [
            (&sources, "source file", at_code),
            (&tests, "test", in_test),
        ] {
            if !citing.contains(id) {
                let problem = format!("no {what} cites {id}");
                found.push(Violation::new(PAGE, *line, problem, remedy));
            }
        }
    }
    for (id, (path, line)) in cited.iter().filter(|(id, _)| !listed.contains_key(*id)) {
        let problem = format!("cites {id}, which is not listed");
        let remedy = "list it in docs/invariants.md, or cite a listed one";
        found.push(Violation::new(path, *line, problem, remedy));
    }
    found
}

/// Returns the ids that the page lists as `- **ID** sentence`, with their lines.
fn list(page: &File) -> (BTreeMap<String, usize>, Vec<Violation>) {
    let mut listed = BTreeMap::new();
    let mut found = Vec::new();
    for (index, text) in page.text.lines().enumerate() {
        let mut complain = |problem: String, remedy: &str| {
            found.push(Violation::new(PAGE, index + 1, problem, remedy));
        };
        let entry = text.strip_prefix("- **");
        let Some((id, sentence)) = entry.and_then(|entry| entry.split_once("** ")) else {
            continue;
        };
        if ids(id).map(|(_, id)| id).ne([id]) {
            let remedy = "write `- **GROUP-1** Sentence.`";
            complain(format!("`{id}` is not an id"), remedy);
            continue;
        }
        if !sentence.ends_with('.') {
            let remedy = "write one line that ends with a full stop";
            complain(format!("the text of {id} is not a sentence"), remedy);
        }
        if listed.insert(id.to_owned(), index + 1).is_some() {
            let remedy = "give one of them the next number";
            complain(format!("{id} is listed twice"), remedy);
        }
    }
    (listed, found)
}

/// Returns every id in a text, such as `WQ-1` or `SRV-STORE-1`, with its offset.
fn ids(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('-').filter_map(|(dash, _)| {
        let is_group = |char: char| char.is_ascii_uppercase() || char == '-';
        let is_digit = |char: char| char.is_ascii_digit();
        let start = text[..dash].trim_end_matches(is_group).len();
        let group = &text[start..dash];
        let after = &text[dash + 1..];
        let end = text.len() - after.trim_start_matches(is_digit).len();
        let free = !text[..start].ends_with(char::is_alphanumeric)
            && !text[end..].starts_with(|char: char| char.is_alphanumeric() || char == '-');
        let is_id = end > dash + 1
            && free
            && group.split('-').all(|part| part.len() > 1)
            && !OTHERS.contains(&group);
        is_id.then_some((start, &text[start..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::{Tree, check, ids};

    /// Returns the violations of a tree with one source file, one test file and the list.
    fn messages(source: &str, test: &str, list: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("crates/framework/steersman-x/src/a.rs", source),
            ("crates/framework/steersman-x/tests/it/a.rs", test),
            ("docs/invariants.md", list),
        ]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("invariants"))
            .collect()
    }

    #[test]
    fn an_invariant_that_is_listed_cited_and_tested_passes() {
        let list = "# Queue\n\n- **WQ-1** A key is held once.\n";
        for (source, test) in [
            ("// WQ-1: held", "/// WQ-1\nfn f() {}"),
            ("// WQ-1: held", "assert!(x, \"WQ-1\");"),
            ("// WQ-1\n#[cfg(test)]\nmod tests { // WQ-1\n}", ""),
        ] {
            assert_eq!(
                messages(source, test, list),
                Vec::<String>::new(),
                "{source} {test}"
            );
        }
    }

    #[test]
    fn each_missing_list_entry_citation_or_test_fails() {
        let list = "- **WQ-1** A key is held once.\n";
        for (source, test, list, part) in [
            ("", "// WQ-1", list, "no source file cites WQ-1"),
            (
                "#[cfg(test)]\nmod tests { // WQ-1\n}",
                "",
                list,
                "no source file cites WQ-1",
            ),
            ("// WQ-1", "", list, "no test cites WQ-1"),
            (
                "// WQ-1, WQ-2",
                "// WQ-1",
                list,
                "cites WQ-2, which is not listed",
            ),
            (
                "// WQ-1",
                "// WQ-1",
                "- **WQ-1** A.\n- **WQ-1** B.\n",
                "WQ-1 is listed twice",
            ),
            ("", "", "- **wq-1** A.\n", "`wq-1` is not an id"),
            (
                "// WQ-1",
                "// WQ-1",
                "- **WQ-1** No full stop\n",
                "the text of WQ-1 is not a sentence",
            ),
            ("", "", "It keeps WQ-9.", "cites WQ-9"),
        ] {
            let said = messages(source, test, list);
            assert_eq!(said.len(), 1, "{part}: {said:?}");
            assert!(said[0].contains(part), "{said:?}");
        }
        assert_eq!(check(&Tree::default()).len(), 1);
    }

    #[test]
    fn ids_are_distinguished_from_similar_text() {
        let text = "WQ-1, (STORE-12) `A-1` UTF-8 xWQ-1 WQ-1x WQ- SHA-256 WQ-x RFC-3339 CTRL-2. A-WQ-3 SRV-HTTP-1 -WQ-7";
        let found: Vec<&str> = ids(text).map(|(_, id)| id).collect();
        assert_eq!(found, ["WQ-1", "STORE-12", "CTRL-2", "SRV-HTTP-1"]);
    }
}
