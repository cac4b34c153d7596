//! Machine: reads and writes YAML as Go does, by way of JSON values.

mod plain;
mod emit;
mod node;
mod problems;

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Budget, Spanned};

use node::Node;

use crate::json;
use crate::json::duplicates;

/// Reads all documents of a file, each with its position.
///
/// # Errors
/// Fails with the position of invalid YAML or of a duplicate key.
pub fn documents(text: &str) -> Result<Vec<Spanned<Value>>, String> {
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        budget: budget(text.len()),
    };
    let read = serde_saphyr::from_multiple_with_options::<Spanned<Node>>(text, options);
    let read = read.map_err(|error| {
        let problem = error.to_string();
        too_deep(&problem).unwrap_or(problem)
    })?;
    let bare = |one: Spanned<Node>| Spanned {
        value: one.value.0,
        referenced: one.referenced,
        defined: one.defined,
    };
    Ok(read.into_iter().map(bare).collect())
}

/// Maximum nesting of values, the same as in JSON. CRDs exceed the default of 64 of the parser.
const DEEPEST: usize = 127;

/// Returns the message for values nested too deep, if that is the problem.
fn too_deep(problem: &str) -> Option<String> {
    let parser_says = ["budget breached: Depth", "recursion limit exceeded"];
    let is_deep = parser_says.iter().any(|words| problem.contains(words));
    is_deep.then(|| format!("exceeded max depth of {DEEPEST}"))
}

/// Bounds the cost of parsing a text: its nesting and the values that its aliases repeat (SRV-3).
/// The caller bounds its length.
fn budget(length: usize) -> Option<Budget> {
    // A single question mark gives three events: a mapping, its key and its value.
    let most = length.saturating_mul(4).saturating_add(16);
    serde_saphyr::budget! {
        max_nodes: most,
        max_events: most,
        max_documents: most,
        max_depth: DEEPEST,
    }
}

/// Reads one document. For a duplicate key, the last value counts.
///
/// # Errors
/// Fails with kube-apiserver's message, which names the position.
pub fn parse(body: &[u8]) -> Result<Value, String> {
    read(body, DuplicateKeyPolicy::LastWins)
}

/// Returns the warning about the first duplicate key: its line and its name.
pub fn twice(body: &[u8]) -> Option<String> {
    let document = first_document(body);
    // Clients send JSON, and the parser of JSON is faster.
    if document.trim_ascii_start().starts_with(b"{") && duplicates::are_absent(document) {
        return None;
    }
    let problem = read(body, DuplicateKeyPolicy::Error).err()?;
    let (place, what) = match problem.split_once(": ") {
        Some((place, what)) if place.starts_with("line ") => (place, what),
        _ => ("line 1", problem.as_str()),
    };
    if !what.to_ascii_lowercase().contains("duplicate") {
        return None;
    }
    // The parser's message goes on with advice for programmers.
    let what = what.split(", set ").next().unwrap_or_default();
    let key = what.rsplit(": ").next().unwrap_or_default();
    let key = key.trim_matches(['"', '\'', '`', ' ']);
    Some(format!("{place}: key \"{key}\" already set in map"))
}

/// Cuts a stream of documents to its first document.
fn first_document(body: &[u8]) -> &[u8] {
    let mut start = 0;
    for line in body.split_inclusive(|byte| *byte == b'\n') {
        let separates = line.trim_ascii_end() == b"---";
        if separates && !body[..start].trim_ascii().is_empty() {
            return &body[..start];
        }
        start += line.len();
    }
    body
}

/// Parses the first document under a policy for duplicate keys.
fn read(body: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Value, String> {
    let body = first_document(body);
    if body.trim_ascii().is_empty() {
        return Ok(Value::Null);
    }
    // Client libraries send JSON, which is YAML, and their objects may nest deeper than the YAML
    // parser allows.
    if let DuplicateKeyPolicy::LastWins = duplicate_keys
        && body.trim_ascii_start().starts_with(b"{")
        && let Ok(mut value) = serde_json::from_slice(body)
    {
        json::write_whole(&mut value);
        return Ok(value);
    }
    // SRV-3: the parser bounds depth, aliases and events, and returns an error beyond them.
    let options = serde_saphyr::options! {
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
        budget: budget(body.len()),
    };
    let read = serde_saphyr::from_slice_with_options::<Node>(body, options);
    read.map(|Node(value)| value).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        let text = error.to_string();
        // The parser's message ends with the position.
        let problem = text.split(" at line ").next().unwrap_or_default();
        let (problem, line) = problems::in_go_words(problem, line as usize, body);
        if line > 0 {
            format!("line {line}: {problem}")
        } else {
            problem
        }
    })
}

/// Writes a JSON value as YAML, byte for byte as kube-apiserver writes it.
pub fn write(value: &Value) -> String {
    emit::document(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_and_numbers_read_as_go_reads_them() {
        let text =
            b"a: yes\nb: 017\nc: \"1\"\nd: ~\ne: 1e3\nf: 2026-01-01\ng: [1, x]\nh: 1\nh: 2\n";
        assert_eq!(
            parse(text).unwrap(),
            json!({"a": true, "b": 15, "c": "1", "d": null, "e": 1000, "f": "2026-01-01",
                "g": [1, "x"], "h": 2})
        );
        assert_eq!(
            parse(b"a: &x {b: 1}\nc: *x\n").unwrap(),
            json!({"a": {"b": 1}, "c": {"b": 1}})
        );
        assert_eq!(parse(b"").unwrap(), Value::Null);
    }

    #[test]
    fn duplicate_keys_of_json_and_yaml_are_found() {
        for text in ["{\"a\": 1, \"a\": 2}", "a: 1\na: 2\n", "{a: 1, a: 2}"] {
            let found = twice(text.as_bytes()).unwrap();
            assert!(found.ends_with("key \"a\" already set in map"), "{found}");
        }
        for text in [
            "{\"a\": {\"b\": [1]}, \"b\": 2}",
            "a: 1\nb: 2\n",
            "{\"a\": ",
        ] {
            assert_eq!(twice(text.as_bytes()), None);
        }
    }

    #[test]
    fn keys_read_as_go_reads_them() {
        let text = "on: 1\ny: 2\n'n': 3\nNo: 4\n017: 5\n-2: 6\n1.50: 7\nx: {1: {off: 9}}\n";
        let want = json!({"true": 2, "n": 3, "false": 4, "15": 5, "-2": 6, "1.5": 7,
            "x": {"1": {"false": 9}}});
        assert_eq!(parse(text.as_bytes()).unwrap(), want);
        assert_eq!(documents(text).unwrap()[0].value, want);
        for none in ["null: 1\n", "? [a]\n: 1\n", "? {a: b}\n: 1\n", "a: .nan\n"] {
            assert!(parse(none.as_bytes()).is_err(), "{none}");
        }
    }

    #[test]
    fn the_first_of_several_documents_is_read() {
        let documents = b"---\na: 1\n---\nb: 2\n---\n: [";
        assert_eq!(parse(documents).unwrap(), json!({"a": 1}));
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_line() {
        let expected = "line 3: key \"b\" already set in map";
        assert_eq!(twice(b"a:\n  b: 1\n  b: 2\n").unwrap(), expected);
        assert_eq!(twice(b"a: 1\nb: 2\n"), None);
        assert_eq!(twice(b"a: ["), None);
    }

    #[test]
    fn problems_name_their_line_beyond_the_first() {
        let problem = "mapping values are not allowed in this context";
        assert_eq!(parse(b"a: b: c").unwrap_err(), problem);
        assert_eq!(
            parse(b"x: 1\na: b: c").unwrap_err(),
            format!("line 2: {problem}")
        );
        for (text, problem) in [
            ("a: [1\n", "line 1: did not find expected ',' or ']'"),
            ("a: \"x\n", "line 2: found unexpected end of stream"),
            (
                "a:\n\tb: 1\n",
                "line 2: found character that cannot start any token",
            ),
            ("a: @b\n", "found character that cannot start any token"),
            ("- a\nb: 1\n", "line 1: did not find expected '-' indicator"),
            ("a:\n  - b\n c: d\n", "line 2: did not find expected key"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), problem);
        }
        assert!(parse(b"\xff\xfe\x00").is_err());
    }

    #[test]
    fn written_yaml_parses_back() {
        let long = "word ".repeat(60);
        let value = json!({"a": "yes", "b": "1", "c": [1, {"x": null, "y": []}], "d": {},
            "e": "line\nline\n", "f": "2026-01-01T00:00:00Z", "g": 1.5, "h": "a: b", "i": long.trim_end()});
        let text = write(&value);
        assert_eq!(parse(text.as_bytes()).unwrap(), value);
        assert!(text.contains("a: \"yes\"\n"), "{text}");
    }

    #[test]
    fn all_documents_of_a_file_are_read_with_their_positions() {
        let found = documents("# One.\na: yes\n---\n\n---\nb: 0400\n").unwrap();
        let places: Vec<_> = found
            .iter()
            .map(|one| (one.referenced.line(), &one.value))
            .collect();
        assert_eq!(places, [(2, &json!({"a": true})), (6, &json!({"b": 256}))]);
        let problem = documents("a: 1\n---\nb: 1\nb: 2\n").unwrap_err();
        assert!(problem.contains("line 4"), "{problem}");
    }

    #[test]
    fn long_yaml_and_deep_json_are_read() {
        let wide = format!("[{}1]", "1,".repeat(250_000));
        let wide = parse(wide.as_bytes()).unwrap();
        assert_eq!(wide.as_array().unwrap().len(), 250_001);
        let many = "a: 1\n---\n".repeat(1_100);
        assert_eq!(documents(&many).unwrap().len(), 1_100);
        let deep = format!("{}1{}", "{\"a\":".repeat(120), "}".repeat(120));
        let expected: Value = serde_json::from_str(&deep).unwrap();
        assert_eq!(parse(deep.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn excessive_nesting_and_aliases_are_refused() {
        let nested = |depth: usize| ["[".repeat(depth), "]".repeat(depth)].concat();
        let blocks = |depth| -> String {
            let level = |level| format!("{}a:\n", " ".repeat(level));
            (0..depth).map(level).collect()
        };
        let refused = "exceeded max depth of 127";
        for (fine, deep) in [
            (nested(DEEPEST), nested(DEEPEST + 1)),
            (blocks(DEEPEST), blocks(DEEPEST + 1)),
        ] {
            // Half of the stack of a runtime's thread.
            let read = std::thread::Builder::new().stack_size(1 << 20);
            let read = read
                .spawn(move || parse(fine.as_bytes()).map(drop))
                .unwrap();
            assert_eq!(read.join().unwrap(), Ok(()));
            let why = parse(deep.as_bytes()).unwrap_err();
            assert!(why.ends_with(refused), "{why}");
            let why = documents(&deep).unwrap_err();
            assert_eq!(why, refused);
        }
        let why = parse("[".repeat(100_000).as_bytes()).unwrap_err();
        assert!(why.ends_with(refused), "{why}");
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
        for level in 1..12 {
            let below = format!("*a{},", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
        }
        assert!(parse(bomb.as_bytes()).is_err());
    }
}
