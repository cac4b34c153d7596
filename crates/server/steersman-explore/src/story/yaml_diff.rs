//! Machine: prints the difference of two objects as lines of YAML.

use serde_json::Value;
use similar::{DiffOp, TextDiff};
use steersman_apimachinery::yaml;

use super::plain_text::shorten;
use super::story_line::{DiffLine, DiffSign};
use crate::field_path::join_member;

/// The number of lines around a change.
const CONTEXT: usize = 2;

/// The length of the longest line, in characters, without its sign.
const LONGEST_LINE: usize = 76;

/// The number of characters before the first difference of two lines that a shortened line still shows.
const BEFORE_DIFFERENCE: usize = 12;

/// The number of lines of an object that are compared. The time for two texts without a common line grows with the
/// square of their length.
const MOST_COMPARED: usize = 10_000;

/// Members of the metadata that the server changes with each write.
const OF_SERVER: [&str; 3] = ["managedFields", "resourceVersion", "creationTimestamp"];

/// Returns the changed lines of an object, with the lines around them. An object that is new or gone is printed as a
/// whole.
pub(crate) fn difference(before: Option<&Value>, after: Option<&Value>) -> Vec<DiffLine> {
    match (before, after) {
        (Some(before), Some(after)) => changed(&yaml::write(before), &yaml::write(after)),
        (Some(before), None) => whole(before, DiffSign::Removed),
        (None, Some(after)) => whole(after, DiffSign::Added),
        (None, None) => Vec::new(),
    }
}

/// Returns the first lines, and how many lines there are more.
pub(crate) fn at_most(mut lines: Vec<DiffLine>, most: usize) -> Vec<DiffLine> {
    let more = lines.len().saturating_sub(most);
    // The remark needs a line as well.
    if more > 1 {
        lines.truncate(most);
        lines.push(DiffLine::new(DiffSign::Note, format!("{more} more lines")));
    }
    lines
}

/// Returns an object without the members that the server changes with each write.
pub(crate) fn without_server_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|name, _| !OF_SERVER.contains(&name.as_str()));
    }
    object
}

fn whole(object: &Value, sign: DiffSign) -> Vec<DiffLine> {
    let text = yaml::write(object);
    text.lines()
        .map(|line| DiffLine::new(sign, shorten(line, LONGEST_LINE)))
        .collect()
}

fn changed(before: &str, after: &str) -> Vec<DiffLine> {
    let old: Vec<&str> = before.lines().take(MOST_COMPARED).collect();
    let new: Vec<&str> = after.lines().take(MOST_COMPARED).collect();
    let diff = TextDiff::from_slices(&old, &new);
    let mut lines = Vec::new();
    for hunk in diff.grouped_ops(CONTEXT) {
        lines.extend(hunk_path(&hunk, &old, &new, lines.is_empty()));
        for op in &hunk {
            let (removed, added) = (&old[op.old_range()], &new[op.new_range()]);
            if let DiffOp::Equal { .. } = op {
                let same = removed.iter().map(|line| shorten(line, LONGEST_LINE));
                lines.extend(same.map(|line| DiffLine::new(DiffSign::Same, line)));
                continue;
            }
            lines.extend(signed(DiffSign::Removed, removed, added));
            lines.extend(signed(DiffSign::Added, added, removed));
        }
    }
    if before
        .lines()
        .nth(MOST_COMPARED)
        .or(after.lines().nth(MOST_COMPARED))
        .is_some()
    {
        let note = format!("only the first {MOST_COMPARED} lines are compared");
        lines.push(DiffLine::new(DiffSign::Note, note));
    }
    lines
}

fn signed(sign: DiffSign, lines: &[&str], others: &[&str]) -> Vec<DiffLine> {
    let lines = lines.iter().enumerate();
    let shown = lines.map(|(at, line)| {
        let other = others.get(at).copied().unwrap_or_default();
        DiffLine::new(sign, shorten_around(line, other))
    });
    shown.collect()
}

/// Shortens a long line so that it shows its first difference from another line.
fn shorten_around(line: &str, other: &str) -> String {
    let length = line.chars().count();
    let same = line
        .chars()
        .zip(other.chars())
        .take_while(|(a, b)| a == b)
        .count();
    if length <= LONGEST_LINE || same + BEFORE_DIFFERENCE < LONGEST_LINE {
        return shorten(line, LONGEST_LINE);
    }
    let head: String = line.chars().take(LONGEST_LINE / 2).collect();
    let tail: String = line.chars().skip(same - BEFORE_DIFFERENCE).collect();
    shorten(&format!("{head}…{tail}"), LONGEST_LINE)
}

/// Returns the line with the path of the first change of a hunk, unless the hunk shows it itself.
fn hunk_path(hunk: &[DiffOp], old: &[&str], new: &[&str], is_first: bool) -> Option<DiffLine> {
    let first = hunk.iter().find(|op| !matches!(op, DiffOp::Equal { .. }))?;
    let start = hunk.first()?;
    let (path, outermost) = match first {
        DiffOp::Insert { new_index, .. } => {
            let (path, outermost) = path_of(new, *new_index);
            (path, outermost.map(|at| at >= start.new_range().start))
        }
        op => {
            let (path, outermost) = path_of(old, op.old_range().start);
            (path, outermost.map(|at| at >= start.old_range().start))
        }
    };
    match outermost {
        Some(false) => Some(DiffLine::new(DiffSign::Path, shorten(&path, LONGEST_LINE))),
        Some(true) | None if is_first => None,
        Some(true) | None => Some(DiffLine::new(DiffSign::Path, "")),
    }
}

/// Returns the path of the field that has a line of YAML inside, and the number of the line with its first member.
fn path_of(lines: &[&str], at: usize) -> (String, Option<usize>) {
    let mut depth = lines.get(at).map_or(0, |line| depth(line));
    let mut steps: Vec<Result<String, usize>> = Vec::new();
    let mut outermost = None;
    for above in (0..at).rev() {
        let line = lines[above];
        let indent = self::depth(line);
        if line.trim().is_empty() || indent >= depth {
            continue;
        }
        let text = line.trim_start();
        match text.strip_prefix("- ") {
            Some(inside) => {
                // The members of an item are indented by one more step than its dash.
                if depth > indent + 3
                    && let Some(key) = opened_key(inside)
                {
                    steps.push(Ok(key));
                }
                steps.push(Err(item_number(&lines[..above], indent)));
            }
            None => {
                let Some(key) = opened_key(text) else {
                    continue;
                };
                steps.push(Ok(key));
            }
        }
        depth = indent;
        outermost = Some(above);
    }
    let path = steps
        .iter()
        .rev()
        .fold(String::new(), |path, step| match step {
            Ok(name) => join_member(&path, name),
            Err(number) => format!("{path}[{number}]"),
        });
    (path, outermost)
}

/// Returns the number of earlier items of the list that has an item at this depth.
fn item_number(above: &[&str], indent: usize) -> usize {
    let inside = above
        .iter()
        .rev()
        .take_while(|line| line.trim().is_empty() || depth(line) >= indent);
    inside
        .filter(|line| depth(line) == indent && !line.trim().is_empty())
        .count()
}

/// Returns how deep a line is. An item of a list is deeper than the key of the list, which has the same indentation.
fn depth(line: &str) -> usize {
    let text = line.trim_start();
    let spaces = line.len() - text.len();
    spaces * 2 + usize::from(text.starts_with("- "))
}

/// Returns the key of a line if its value is on the lines below.
fn opened_key(text: &str) -> Option<String> {
    let (key, value) = text.split_once(':')?;
    let is_open = value.is_empty() || value.starts_with(" |") || value.starts_with(" >");
    is_open.then(|| key.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn print(before: Option<&Value>, after: Option<&Value>) -> Vec<String> {
        difference(before, after)
            .iter()
            .map(DiffLine::print)
            .collect()
    }

    fn pod(image: &str, value: &str) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"containers": [
            {"image": "x", "name": "first", "args": ["1", "2"]},
            {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": value}, {"name": "C", "value": "1"}],
             "image": image, "name": "second", "zone": {"a": 1}},
        ]}, "status": {"phase": "Up"}})
    }

    #[test]
    fn changed_lines_have_two_lines_around_them_and_the_path_of_each_hunk() {
        let lines = [
            "@@ spec.containers[1].env[1]", "        value: \"1\"", "      - name: B",
            "-       value: \"1\"", "+       value: \"2\"", "      - name: C",
            "        value: \"1\"", "-     image: v1", "+     image: v2", "      name: second",
            "      zone:",
        ];
        assert_eq!(print(Some(&pod("v1", "1")), Some(&pod("v2", "2"))), lines);
    }

    #[test]
    fn a_new_object_and_one_that_is_gone_are_printed_as_a_whole() {
        let object = json!({"kind": "A", "metadata": {"name": "a"}});
        assert_eq!(
            print(None, Some(&object)),
            ["+ kind: A", "+ metadata:", "+   name: a"]
        );
        assert_eq!(
            print(Some(&object), None),
            ["- kind: A", "- metadata:", "-   name: a"]
        );
        assert!(print(Some(&object), Some(&object)).is_empty());
    }

    #[test]
    fn hunks_are_told_apart() {
        let object = |a: u8, z: u8| json!({"a": a, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "z": z});
        let lines = [
            "- a: 1", "+ a: 2", "  b: 1", "  c: 1", "@@", "  e: 1", "  f: 1", "- z: 1", "+ z: 2",
        ];
        assert_eq!(print(Some(&object(1, 1)), Some(&object(2, 2))), lines);
    }

    #[test]
    fn names_with_dots_have_quotes_in_a_path() {
        let object =
            |text: &str| json!({"data": {"a": "", "b.conf": format!("1\n2\n3\n4\n{text}\n")}});
        let lines = print(Some(&object("x")), Some(&object("y")));
        assert_eq!(
            lines,
            [
                "@@ data[\"b.conf\"]", "      3", "      4", "-     x", "+     y"
            ]
        );
    }

    #[test]
    fn a_long_line_shows_its_first_difference() {
        let object = |end: &str| json!({"key": format!("{}{end}", "a".repeat(300))});
        let lines = print(Some(&object("1")), Some(&object("2")));
        assert!(
            lines
                .iter()
                .all(|line| line.chars().count() <= LONGEST_LINE + 2),
            "{lines:?}"
        );
        assert!(
            lines[0].ends_with("aaa1") && lines[1].ends_with("aaa2"),
            "{lines:?}"
        );
        assert!(
            lines[0].starts_with("- key: aaa") && lines[0].contains('…'),
            "{lines:?}"
        );
        let lines = print(Some(&object(&"1".repeat(90))), None);
        assert!(lines[0].ends_with('…') && lines[0].chars().count() == LONGEST_LINE + 2);
    }

    #[test]
    fn a_long_difference_is_cut_with_a_remark() {
        let line = DiffLine::new(DiffSign::Same, "a");
        assert_eq!(at_most(vec![line.clone(); 31], 30).len(), 31);
        let cut = at_most(vec![line; 42], 30);
        assert_eq!(
            (cut.len(), cut[30].print().as_str()),
            (31, "… 12 more lines")
        );
    }

    #[test]
    fn texts_without_a_common_line_are_compared() {
        let object = |start: usize| json!((start..start + 300).collect::<Vec<_>>());
        let lines = difference(Some(&object(0)), Some(&object(1000)));
        assert_eq!(lines.len(), 600);
    }
}
