//! The rule `labels`: labels of metrics come from a short list, so that none holds the name of an object.
//!
//! A label with names of objects makes one series per object, which Prometheus cannot hold. The rule reads the label
//! names in production files that name the crate `prometheus`: slices of texts, such as `&["name", "verb"]`, and
//! `const_label("name", …)`. The arguments of `with_label_values` are values and not checked.

use super::lexer::{Source, offset};
use super::tree::{File, Tree, Violation};

/// The labels, each with a bounded number of values: `code` is an HTTP status or `<error>`, `host` the address of an
/// api-server, `name` the kind of an informer or the name of a queue or lease, `outcome` how a wait ended, `reason` the
/// class of a failure, `result` how a reconcile ended, `state` that of an informer, `type` that of an event, and `what`
/// says which certificate was replaced.
const LABELS: &[&str] = &[
    "code", "cluster", "controller", "definition", "host", "method", "name", "outcome", "platform",
    "priority", "reason", "result", "server", "state", "type", "verb", "version", "webhook",
    "what",
];

/// Packages that read metrics of others, or define none of an operator.
const EXEMPT: &[&str] = &[
    "crates/server/steersman-testenv",
    "crates/tools/steersman-bench",
];

/// Checks the labels of every production file that defines metrics.
pub(crate) fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in tree.rust().filter(|file| defines_metrics(file)) {
        let source = Source::of(&file.text);
        for (at, label) in labels(&file.text) {
            if source.in_test(at) || LABELS.contains(&label) {
                continue;
            }
            let problem = format!("a metric has the label `{label}`");
            let remedy = "use a label of the list in xtask/src/tidy/labels.rs; a label never holds the name of an object";
            found.push(file.violation(at, problem, remedy));
        }
    }
    found
}

fn defines_metrics(file: &File) -> bool {
    let is_checked = |package: &str| package.starts_with("crates/") && !EXEMPT.contains(&package);
    file.package().is_some_and(is_checked)
        && file.is_production()
        && file.text.contains("prometheus::")
}

/// Returns the label names of a file with their offsets.
fn labels(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (start, opening) in text.match_indices("&[") {
        let after = start + opening.len();
        let values = text[..start].trim_end().ends_with("with_label_values(");
        let is_texts = text[after..].trim_start().starts_with('"');
        let Some(end) = text[after..].find(']').filter(|_| is_texts && !values) else {
            continue;
        };
        // Names alone: another slice of texts, such as buckets of names with spaces, is no list of labels.
        for part in text[after..after + end].split(',') {
            let name = part.trim().trim_matches('"');
            if !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
                found.push((offset(text, part), name));
            }
        }
    }
    for (start, opening) in text.match_indices("const_label(\"") {
        let name = start + opening.len();
        if let Some(end) = text[name..].find('"') {
            found.push((name, &text[name..name + end]));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{Tree, check};

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/framework/steersman-x/src/metrics.rs", text)]);
        check(&tree)
            .iter()
            .map(|violation| violation.of_rule("labels"))
            .collect()
    }

    #[test]
    fn a_label_that_may_hold_the_name_of_an_object_fails() {
        for (text, label) in [
            (
                "use prometheus::Opts;\nf(opts, &[\"name\", \"object\"]);",
                "object",
            ),
            ("prometheus::f(opts, &[\n    \"key\",\n]);", "key"),
            (
                "prometheus::f(Opts::new(a, b).const_label(\"pod\", pod));",
                "pod",
            ),
        ] {
            let found = messages(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(&format!("`{label}`")), "{found:?}");
        }
    }

    #[test]
    fn listed_labels_values_and_tests_pass() {
        for text in [
            "prometheus::f(opts, &[\"name\", \"verb\"]).with_label_values(&[\"shop\"]);",
            "prometheus::f(opts.const_label(\"controller\", name));",
            "f(&[\"object\"]);",
            "use prometheus::Opts;\n#[cfg(test)]\nmod tests {\n    fn f() { g(&[\"object\"]) }\n}\n",
        ] {
            assert_eq!(messages(text), Vec::<String>::new(), "{text}");
        }
    }
}
