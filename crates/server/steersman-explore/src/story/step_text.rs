//! Machine: tells the steps of a user.

use steersman_apimachinery::secret_values::hide;

use super::plain_text::one_line;
use super::secret_values::SecretValues;
use super::story_line::StoryBlock;
use crate::finding::Finding;
use crate::scenario::Step;

/// Returns the steps of a finding as a numbered list.
pub(crate) fn asked(finding: &Finding) -> Vec<StoryBlock> {
    if finding.steps.is_empty() {
        return vec![StoryBlock::Text(
            "nothing after the initial objects".to_owned(),
        )];
    }
    let steps = finding.steps.iter().enumerate();
    let numbered = steps.map(|(at, step)| StoryBlock::Numbered(at + 1, one_line(&step_text(step))));
    numbered.collect()
}

/// Returns a text about the user, in which steps of the finding have no values of Secrets.
pub(crate) fn user_text(text: &str, finding: &Finding, known: &SecretValues) -> String {
    let steps = finding
        .steps
        .iter()
        .filter(|step| matches!(step, Step::Merge { .. }));
    let text = steps.fold(text.to_owned(), |text, step| {
        text.replace(&step.to_string(), &step_text(step))
    });
    // Names of objects stay as they are unless a driver tells a Secret in words of its own.
    let is_about_secret = text.contains("Secret");
    one_line(&if is_about_secret {
        known.hide_in(&text)
    } else {
        text
    })
}

/// Prints a step as its `Display` does, with the patch of a Secret, but without its values.
fn step_text(step: &Step) -> String {
    match step {
        Step::Merge { object, patch, .. } => {
            format!("patches {object} with {}", hide(patch, &object.kind))
        }
        other => other.to_string(),
    }
}
