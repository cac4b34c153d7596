//! Machine: tells the problem of a finding in full.

use serde_json::Value;
use steersman_apimachinery::secret_values::hide;

use super::happened::{last_lines, write_text};
use super::plain_text::{clean, one_line, shorten};
use super::secret_values::{SecretValues, hide_field};
use super::story_line::{DiffLine, StoryBlock};
use super::yaml_diff::{at_most, difference, without_server_fields};
use crate::finding::{ComparedState, Finding, Problem, StateDifference};

/// The length of a sentence, in characters: some lines.
const LONGEST_SENTENCE: usize = 300;

/// The number of lines of YAML of one object.
const MOST_LINES_OF_OBJECT: usize = 400;

/// The number of objects that are printed; later ones are only named.
const MOST_OBJECTS: usize = 30;

/// The number of writes of a list.
const MOST_WRITES: usize = 50;

/// Returns the problem as one sentence without a full stop. That of a desired state begins with the change.
pub(crate) fn sentence(finding: &Finding, known: &SecretValues) -> String {
    let problem = &finding.problem;
    let text = match &finding.change {
        Some(change) => format!("{}: {problem}", change.text),
        None => problem.to_string(),
    };
    let text = match problem {
        // The operator or a rule wrote a part of the text. Other texts have only names.
        Problem::BrokenRule { .. }
        | Problem::Exit { .. }
        | Problem::Failing(_)
        | Problem::Panic(_) => known.hide_in(&text),
        _ => text,
    };
    shorten(&one_line(&text), LONGEST_SENTENCE)
}

/// Returns the problem with all that is known about it.
pub(crate) fn problem_blocks(finding: &Finding, known: &SecretValues) -> Vec<StoryBlock> {
    let text = |text: String| StoryBlock::Text(one_line(&text));
    match &finding.problem {
        Problem::WrongState {
            than, differences, ..
        } => wrong_state(*than, differences),
        Problem::NotQuiet { last_writes } => listed(
            "the operator does not become quiet; its last writes, the oldest first:",
            last_writes,
        ),
        Problem::SettledWrites(writes) => {
            listed("all was settled, and the restarted operator wrote:", writes)
        }
        Problem::BrokenRule {
            name,
            why,
            after_write,
        } => {
            let place = match after_write {
                Some(number) => format!("after {}", write_text(&finding.events, *number)),
                None => "at the end".to_owned(),
            };
            let why = clean(&known.hide_in(why));
            vec![
                text(format!("the rule {name:?} does not hold {place}:")),
                StoryBlock::Quote(why.lines().map(str::to_owned).collect()),
            ]
        }
        Problem::ChangedConstant {
            object,
            field,
            before,
            after,
        } => {
            let before = hide_field(object, field, before);
            let after = hide_field(object, field, after);
            let mut lines = difference(Some(&before), None);
            lines.extend(difference(None, Some(&after)));
            vec![
                text(format!(
                    "{field} of {object} must not change (- as first set, + as changed):"
                )),
                StoryBlock::Diff(at_most(lines, MOST_LINES_OF_OBJECT)),
            ]
        }
        Problem::Exit { how, output } => {
            let how = known.hide_in(how);
            let mut blocks = vec![text(format!(
                "a process of the operator ended by itself: {how}"
            ))];
            let output = last_lines(output, known);
            if !output.is_empty() {
                blocks.push(text("the last lines that it printed:".to_owned()));
                blocks.push(StoryBlock::Quote(output));
            }
            blocks
        }
        Problem::Failing(requests) => {
            let requests: Vec<String> = requests.iter().map(|one| known.hide_in(one)).collect();
            let text = "the state is right, but the last reconciles of these requests failed:";
            listed(text, &requests)
        }
        Problem::Panic(panic) => vec![text(format!(
            "a reconcile panicked; the operator tries it again: {}",
            known.hide_in(panic)
        ))],
        Problem::Forbidden(request) => vec![text(format!(
            "the server refused a request, because no role of the operator allows it: {request}"
        ))],
        Problem::Leftovers(objects) => {
            let names: Vec<String> = objects.iter().map(ToString::to_string).collect();
            listed("a namespace was deleted, and these objects remain:", &names)
        }
    }
}

fn wrong_state(than: ComparedState, differences: &[StateDifference]) -> Vec<StoryBlock> {
    let other = than.name();
    let mut blocks = Vec::new();
    for StateDifference {
        object,
        expected,
        found,
    } in differences.iter().take(MOST_OBJECTS)
    {
        let name = one_line(&object.to_string());
        let text = match (expected, found) {
            (Some(_), None) => format!("{name} is missing; {other} has:"),
            (None, Some(_)) => {
                format!("{name} should not exist; {other} does not have it:")
            }
            _ => format!("{name} differs (- as in {other}, + as in this world):"),
        };
        blocks.push(StoryBlock::Text(text));
        let hidden = |value: &Option<_>| value.as_ref().map(|value| hide(value, &object.kind));
        let lines = state_lines(hidden(expected).as_ref(), hidden(found).as_ref());
        blocks.push(StoryBlock::Diff(at_most(lines, MOST_LINES_OF_OBJECT)));
    }
    let others = differences.iter().skip(MOST_OBJECTS);
    let others: Vec<String> = others
        .map(|one| one_line(&one.object.to_string()))
        .collect();
    if !others.is_empty() {
        blocks.push(StoryBlock::Text(format!(
            "These objects differ as well: {}",
            others.join(", ")
        )));
    }
    blocks
}

/// Returns the lines of a difference, without members of the server unless only those differ.
fn state_lines(expected: Option<&Value>, found: Option<&Value>) -> Vec<DiffLine> {
    let short = |value: Option<&_>| value.map(without_server_fields);
    let lines = difference(short(expected).as_ref(), short(found).as_ref());
    if lines.is_empty() {
        difference(expected, found)
    } else {
        lines
    }
}

fn listed(text: &str, texts: &[String]) -> Vec<StoryBlock> {
    let mut blocks = vec![StoryBlock::Text(text.to_owned())];
    blocks.extend(list(texts));
    blocks
}

fn list(texts: &[String]) -> Vec<StoryBlock> {
    let last = texts.len().saturating_sub(MOST_WRITES);
    let shown = texts[last..]
        .iter()
        .map(|text| StoryBlock::Item(one_line(text)));
    shown.collect()
}
