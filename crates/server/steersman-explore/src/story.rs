//! Machine: tells a finding as a story.

mod story_line;
mod plain_text;
mod secret_values;
mod yaml_diff;
mod step_text;
mod request_run;
mod happened;
mod beliefs;
mod problem_text;
mod print;

use self::beliefs::beliefs;
use self::happened::happened;
pub(crate) use self::plain_text::{clean, count, one_line, seconds};
use self::problem_text::{problem_blocks, sentence};
use self::secret_values::SecretValues;
use self::step_text::asked;
pub(crate) use self::story_line::{
    DiffLine, DiffSign, EventLine, EventMark, Story, StoryBlock, StorySection,
};
use crate::finding::Finding;

/// The number of other perturbations that a story names.
const MOST_OTHERS: usize = 40;

/// Tells a finding as text of at most 100 columns: what the user asked, what happened in order, the problem in full,
/// and how it repeats. `again` is the command that repeats the world. Only a word of `again` without a space can make a
/// line longer.
///
/// The values of Secrets are replaced by their length and a short hash. In texts that the operator printed, a value of
/// fewer than 8 bytes stays, because it may be a part of another word.
#[must_use]
pub fn tell(finding: &Finding, again: &str) -> String {
    print::print(&story_of(finding, again))
}

/// Returns the problem of a finding as one sentence, without a full stop and without values of Secrets.
pub(crate) fn sentence_of(finding: &Finding) -> String {
    sentence(finding, &SecretValues::of(finding))
}

/// Returns the story of a finding.
pub(crate) fn story_of(finding: &Finding, again: &str) -> Story {
    let known = SecretValues::of(finding);
    let events = happened(finding, &known).into_iter().map(StoryBlock::Event);
    let mut sections = vec![StorySection::new("What the user asked", asked(finding))];
    sections.push(StorySection::new("What happened", events.collect()));
    sections.push(StorySection::new(
        "What the operator believed, and what was so",
        beliefs(finding),
    ));
    sections.push(StorySection::new(
        "What is wrong",
        problem_blocks(finding, &known),
    ));
    sections.push(StorySection::new(
        "Does it repeat?",
        vec![StoryBlock::Text(repeats(finding))],
    ));
    sections.push(StorySection::new(
        "The same problem appears with",
        others(finding),
    ));
    let again = clean(again);
    if !again.trim().is_empty() {
        let command = StoryBlock::Command(again.trim().to_owned());
        sections.push(StorySection::new("Repeat it with", vec![command]));
    }
    sections.retain(|section| !section.blocks.is_empty());
    Story {
        name: finding.name(),
        sentence: sentence(finding, &known),
        sections,
    }
}

fn repeats(finding: &Finding) -> String {
    let Finding {
        tries, repeated, ..
    } = finding;
    match (*tries, *repeated) {
        (0, _) => "it was not tried again".to_owned(),
        (tries, repeated) if repeated < tries => {
            let tries = count(tries, "try", "tries");
            format!("it does not always repeat: seen again in {repeated} of {tries}")
        }
        (tries, repeated) => format!(
            "seen again in {repeated} of {}",
            count(tries, "try", "tries")
        ),
    }
}

fn others(finding: &Finding) -> Vec<StoryBlock> {
    let names: Vec<String> = finding.also.iter().map(|name| one_line(name)).collect();
    let more = names.len().saturating_sub(MOST_OTHERS);
    let shown = names[..names.len() - more].join(", ");
    match (names.is_empty(), more) {
        (true, _) => Vec::new(),
        (false, 0) => vec![StoryBlock::Text(shown)],
        (false, more) => vec![StoryBlock::Text(format!("{shown}, and {more} more"))],
    }
}

#[cfg(test)]
pub(crate) mod tests;
