//! Machine: prints the summary of a report for a terminal.

use super::explore_report::{DesiredReport, ExploreReport, PointCounts};
use crate::story::{count, one_line, sentence_of};

/// The number of undisturbed worlds of a whole exploration.
const REFERENCES: usize = 3;

/// The number of parts that vary from run to run, or of points that were not tried, that a summary names.
const MOST_NAMED: usize = 3;

impl ExploreReport {
    /// Returns a few lines for a terminal: the numbers, and each finding by its name and as one sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let mut lines = vec![format!("{}: {}", one_line(&self.scenario), self.verdict())];
        lines.extend(self.numbers().into_iter().map(|line| format!("  {line}")));
        for finding in &self.findings {
            lines.push(String::new());
            lines.push(finding.name());
            lines.push(format!("  {}", sentence_of(finding)));
            let command = one_line(&self.command_for(finding));
            if !command.is_empty() {
                lines.push(format!("  repeat it with: {command}"));
            }
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Returns the number of findings, of worlds and of seconds as one sentence.
    pub(crate) fn verdict(&self) -> String {
        let found = match self.findings.len() {
            0 if self.worlds == 0 => return "nothing was explored".to_owned(),
            0 => "nothing found".to_owned(),
            number => count(number, "finding", "findings"),
        };
        let worlds = count(self.worlds, "world", "worlds");
        format!(
            "{found} in {worlds} within {:.1} s",
            self.time.as_secs_f64()
        )
    }

    /// Returns the numbers of points as sentences.
    pub(crate) fn numbers(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let counts = PointCounts::of(&self.points);
        let planned = count(self.planned(), "planned point", "planned points");
        lines.push(format!("{} of {planned} tried", counts.tried));
        if self.writes == 0 && self.worlds >= REFERENCES {
            let warning = "the operator wrote nothing in the undisturbed run, so that little could be tried: does it see the \
                           objects of the scenario, and do its reconciles succeed?";
            lines.push(warning.to_owned());
        }
        if counts.not_reached > 0 {
            lines.push(format!(
                "{} not reached by the operator",
                count(counts.not_reached, "point was", "points were")
            ));
        }
        if !self.not_tried.is_empty() {
            let points = count(self.not_tried.len(), "point was", "points were");
            lines.push(format!(
                "{points} not tried, because the budget ended: {}",
                first_of(&self.not_tried)
            ));
        }
        if !self.varying.is_empty() {
            let parts = count(self.varying.len(), "part varies", "parts vary");
            lines.push(format!(
                "{parts} from run to run, where values are not compared: {}",
                first_of(&self.varying)
            ));
        }
        if !self.unrepeatable.is_empty() {
            let requests = count(
                self.unrepeatable.len(),
                "request differs",
                "requests differ",
            );
            lines.push(format!(
                "{requests} between two worlds with one seed, because the operator uses time or randomness of its own: {}",
                first_of(&self.unrepeatable)
            ));
        }
        lines.extend(self.desired_numbers(&counts));
        lines
    }

    /// Returns what other desired states showed, as sentences.
    fn desired_numbers(&self, counts: &PointCounts) -> Vec<String> {
        let DesiredReport {
            without_effect,
            unreachable,
            untried,
            skipped,
            unmatched,
            left_out,
        } = &self.desired_states;
        let mut lines = Vec::new();
        if counts.refused > 0 {
            let states = count(counts.refused, "desired state was", "desired states were");
            lines.push(format!("{states} refused by the server"));
        }
        for reason in untried {
            lines.push(format!(
                "no other desired state was tried of {}",
                one_line(reason)
            ));
        }
        if !unreachable.is_empty() {
            let states = count(unreachable.len(), "desired state", "desired states");
            let named = first_of(unreachable);
            lines.push(format!(
                "the operator cannot reach {states}, so that only the way back was tried: {named}"
            ));
        }
        if !skipped.is_empty() {
            let states = count(skipped.len(), "desired state was", "desired states were");
            let named = first_of(skipped);
            lines.push(format!(
                "{states} left out, because a skipped field would change, too: {named}"
            ));
        }
        if !unmatched.is_empty() {
            let fields = count(unmatched.len(), "chosen field is", "chosen fields are");
            lines.push(format!("{fields} in no schema: {}", unmatched.join(", ")));
        }
        if *left_out > 0 {
            let states = count(*left_out, "desired state was", "desired states were");
            lines.push(format!(
                "{states} left out beyond the maximum for one object"
            ));
        }
        if !without_effect.is_empty() {
            let fields = count(without_effect.len(), "field has", "fields have");
            lines.push(format!("{fields} no effect: {}", first_of(without_effect)));
        }
        lines
    }
}

fn first_of(texts: &[String]) -> String {
    let named: Vec<String> = texts
        .iter()
        .take(MOST_NAMED)
        .map(|text| one_line(text))
        .collect();
    let more = if texts.len() > MOST_NAMED {
        ", …"
    } else {
        ""
    };
    format!("{}{more}", named.join(", "))
}
