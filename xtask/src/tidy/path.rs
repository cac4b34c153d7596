//! The rule `path`: the drawing of the path of an event names files that exist and types that they declare, and enters
//! each folder once.

use super::lexer::{Source, offset, tokens};
use super::tree::{File, Tree, Violation};
use super::types::declarations;

const PAGE: &str = "docs/architecture.md";
const HEADING: &str = "## The path of one event\n";
/// The largest number of files between the wire and `reconcile`.
const MOST: usize = 30;

pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let Some(page) = tree.get(PAGE) else {
        return Vec::new();
    };
    let Some(drawing) = drawing(&page.text) else {
        let problem = format!("has no drawing under `{}`", HEADING.trim());
        return vec![page.violation(0, problem, "draw the path in a fenced block")];
    };
    let mut found = Vec::new();
    let mut files = 0;
    let mut folders: Vec<&str> = Vec::new();
    for row in drawing.lines() {
        let mut words = row.split(|char: char| char.is_whitespace() || char == ',');
        if let Some(path) = words.find(|word| word.ends_with(".rs")) {
            files += 1;
            let at = offset(&page.text, row);
            found.extend(check_row(tree, page, at, path, words));
            let folder = folder(path);
            if folders.last() != Some(&folder) {
                if folders.contains(&folder) {
                    let problem = format!("draws a path that enters `{folder}` a second time");
                    found.push(page.violation(at, problem, "move the file to its neighbours"));
                }
                folders.push(folder);
            }
        }
    }
    if files == 0 || files > MOST {
        let problem = format!("draws a path of {files} files, not of 1 to {MOST}");
        found.push(page.violation(offset(&page.text, drawing), problem, "shorten the path"));
    }
    found
}

/// Returns the fenced block after the heading.
fn drawing(text: &str) -> Option<&str> {
    let section = text.find(HEADING)? + HEADING.len();
    let fence = section + text[section..].find("```")?;
    let start = fence + text[fence..].find('\n')? + 1;
    let length = text[start..].find("```")?;
    let is_in_section = !text[section..start].contains("\n## ");
    is_in_section.then(|| &text[start..start + length])
}

/// Returns the folder of a file, or the file itself without its extension if it lies in `src`. So `fanout.rs` is
/// in the folder `fanout`.
fn folder(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, _)) if !folder.ends_with("/src") => folder,
        _ => path.trim_end_matches(".rs"),
    }
}

/// Checks a row: a file, and the types in the file that hold an event or pass it on.
fn check_row<'a>(
    tree: &Tree,
    page: &File,
    at: usize,
    path: &str,
    words: impl Iterator<Item = &'a str>,
) -> Vec<Violation> {
    let Some(file) = tree.get(path) else {
        let problem = format!("draws `{path}`, which does not exist");
        return vec![page.violation(at, problem, "draw the file that exists")];
    };
    let code = Source::of(&file.text).production();
    let declared = declarations(&tokens(&code));
    // Words after the types are a remark.
    let types = words
        .filter(|word| !word.is_empty())
        .take_while(|word| word.starts_with(|char: char| char.is_ascii_uppercase()));
    let missing = types.filter(|name| !declared.iter().any(|found| found.text == *name));
    missing
        .map(|name| {
            let problem = format!("draws `{name}` in `{path}`, which does not declare it");
            page.violation(at, problem, "draw a type that the file declares")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{HEADING, MOST, Tree, check};

    /// Returns the violations of a drawing with these rows.
    fn messages(rows: &str) -> Vec<String> {
        let page = format!("# A\n{HEADING}\n```text\n{rows}\n```\n");
        let tree = Tree::of(&[
            (
                "crates/framework/a/src/b.rs",
                "pub struct Arrow;\nenum Bow<T> { A(T) }",
            ),
            ("crates/framework/a/src/d/e.rs", ""),
            ("docs/architecture.md", &page),
        ]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("path"))
            .collect()
    }

    #[test]
    fn a_drawing_of_existing_files_and_types_passes() {
        for rows in [
            "crates/framework/a/src/b.rs  Arrow, Bow",
            "  wire\n    ▼\n  crates/framework/a/src/b.rs  Arrow  reads the JSON",
            "crates/framework/a/src/b.rs",
            "crates/framework/a/src/d/e.rs\ncrates/framework/a/src/d/e.rs\ncrates/framework/a/src/b.rs",
        ] {
            assert_eq!(messages(rows), Vec::<String>::new(), "{rows}");
        }
    }

    #[test]
    fn a_drawing_of_a_missing_file_or_type_fails() {
        let many = "crates/framework/a/src/b.rs\n".repeat(MOST + 1);
        for rows in [
            "crates/framework/a/src/c.rs  Arrow",
            "crates/framework/a/src/b.rs  Arrow, Quiver",
            "no file at all",
            "crates/framework/a/src/d/e.rs\ncrates/framework/a/src/b.rs\ncrates/framework/a/src/d/e.rs",
            &many,
        ] {
            assert_eq!(messages(rows).len(), 1, "{rows}");
        }
    }

    #[test]
    fn a_page_without_the_drawing_fails() {
        for page in [
            "# A\n",
            "## The path of one event\n\n## B\n```text\na.rs\n```\n",
        ] {
            let tree = Tree::of(&[("docs/architecture.md", page)]);
            assert_eq!(check(&tree).len(), 1, "{page}");
        }
    }
}
