//! Cancel safety: whoever awaits a public method reads what happens when its future is dropped.

use super::lexer::Source;
use super::tree::{File, Tree, Violation};

/// The name of this rule.
pub(crate) const RULE: &str = "cancel";

/// Checks every public method that is async or returns a future, in the sources of the crates.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree
        .rust()
        .filter(|file| file.path.starts_with("crates/") && !file.is_test());
    sources.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let source = Source::of(&file.text);
    let lines: Vec<&str> = file.text.lines().collect();
    // What a type says holds for its methods.
    let says_for_all = lines.iter().enumerate().any(|(at, line)| {
        let declares = ["pub struct ", "pub enum ", "pub trait ", "impl"];
        declares.iter().any(|start| line.starts_with(start)) && is_said(&lines, at)
    });
    if says_for_all {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut offset = 0;
    for (at, line) in lines.iter().enumerate() {
        let start = offset;
        offset += line.len() + 1;
        if source.in_test(start) || !returns_future(&lines[at..]) || is_said(&lines, at) {
            continue;
        }
        let name = line.split("fn ").nth(1).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        found.push(Violation {
            rule: RULE,
            path: file.path.clone(),
            line: at + 1,
            problem: format!("`{name}` does not say what happens when its future is dropped"),
            way_out: "write a section `# Cancel safety`, there or at its type".to_owned(),
        });
    }
    found
}

/// Whether a public function begins here that is to be awaited.
fn returns_future(lines: &[&str]) -> bool {
    let first = lines[0].trim_start();
    if first.starts_with("pub async fn ") {
        return true;
    }
    let signature: Vec<&str> = lines
        .iter()
        .take_while(|line| !line.trim_end().ends_with(['}', ';']))
        .copied()
        .collect();
    let signature = signature.join(" ");
    let signature = signature.split('{').next().unwrap_or_default();
    first.starts_with("pub fn ") && signature.contains("-> impl Future")
}

/// Whether the documentation of the item at a line speaks of cancellation.
fn is_said(lines: &[&str], at: usize) -> bool {
    lines[..at]
        .iter()
        .rev()
        .map(|line| line.trim_start())
        .take_while(|line| line.starts_with("///") || line.starts_with("#["))
        .any(|line| line.contains("ancel safe"))
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn says(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/steersman-x/src/a.rs", text)]);
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_future_without_a_word_fails() {
        let said = says("impl X {\n    /// Waits.\n    pub async fn wait<T>(&self) {}\n}\n");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("a.rs:3: [cancel] `wait` does not say"),
            "{said:?}"
        );
        let text = "pub fn run(\n    a: u8,\n) -> impl Future<Output = ()> + Send {\n}\n";
        assert_eq!(says(text).len(), 1);
    }

    #[test]
    fn a_word_at_the_method_or_its_type_passes() {
        for text in [
            "/// # Cancel safety\n///\n/// Fine.\n#[must_use]\npub async fn wait() {}\n",
            "/// Waits. Cancel safe.\npub async fn wait() {}\n",
            "/// X.\n///\n/// # Cancel safety\npub struct X;\nimpl X {\n    pub async fn wait() {}\n}\n",
            "pub(crate) async fn wait() {}\n",
            "pub fn when(request: impl Future<Output = ()>) -> Self {\n}\n",
            "#[cfg(test)]\nmod tests {\n    pub async fn wait() {}\n}\n",
        ] {
            assert_eq!(says(text), Vec::<String>::new(), "{text}");
        }
    }
}
