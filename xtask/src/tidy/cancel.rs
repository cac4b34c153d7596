//! The rule `cancel`: public async functions document what happens when their future is dropped.

use super::lexer::{Source, offset};
use super::tree::{File, Tree, Violation};

/// Checks every public function of the crates that is `async` or returns `impl Future`.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree
        .rust()
        .filter(|file| file.path.starts_with("crates/") && !file.is_test());
    sources.flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Violation> {
    let source = Source::of(&file.text);
    let lines: Vec<&str> = file.text.lines().collect();
    // A section at a type, trait or impl covers all functions of the file.
    let covers_all = lines.iter().enumerate().any(|(at, line)| {
        let declares = ["pub struct ", "pub enum ", "pub trait ", "impl"];
        declares.iter().any(|start| line.starts_with(start)) && is_documented(&lines, at)
    });
    if covers_all {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let start = offset(&file.text, line);
        if source.in_test(start) || !returns_future(&lines[at..]) || is_documented(&lines, at) {
            continue;
        }
        let name = line.split("fn ").nth(1).unwrap_or_default();
        let name = name.split(['(', '<']).next().unwrap_or_default();
        let problem = format!("`{name}` does not document what happens when its future is dropped");
        let remedy = "write a section `# Cancel safety` at the function or at its type";
        found.push(Violation::new(&file.path, at + 1, problem, remedy));
    }
    found
}

/// Returns whether the first line begins a public function that is `async` or returns `impl Future`.
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

/// Returns whether the doc comment above the line `at` mentions cancel safety.
fn is_documented(lines: &[&str], at: usize) -> bool {
    let above = lines[..at].iter().rev().map(|line| line.trim_start());
    let mut docs = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
    docs.any(|line| line.contains("ancel safe"))
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/framework/steersman-x/src/a.rs", text)]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("cancel"))
            .collect()
    }

    #[test]
    fn an_undocumented_future_fails() {
        let said = messages("impl X {\n    /// Waits.\n    pub async fn wait<T>(&self) {}\n}\n");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("a.rs:3: [cancel] `wait` does not document"),
            "{said:?}"
        );
        let text = "pub fn run(\n    a: u8,\n) -> impl Future<Output = ()> + Send {\n}\n";
        assert_eq!(messages(text).len(), 1);
    }

    #[test]
    fn a_section_at_the_function_or_its_type_passes() {
        for text in [
            "/// # Cancel safety\n///\n/// Fine.\n#[must_use]\npub async fn wait() {}\n",
            "/// Waits. Cancel safe.\npub async fn wait() {}\n",
            "/// X.\n///\n/// # Cancel safety\npub struct X;\nimpl X {\n    pub async fn wait() {}\n}\n",
            "pub(crate) async fn wait() {}\n",
            "pub fn when(request: impl Future<Output = ()>) -> Self {\n}\n",
            "#[cfg(test)]\nmod tests {\n    pub async fn wait() {}\n}\n",
        ] {
            assert_eq!(messages(text), Vec::<String>::new(), "{text}");
        }
    }
}
