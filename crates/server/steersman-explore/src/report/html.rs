//! Machine: prints a report as one page of HTML without outside parts.

use super::explore_report::ExploreReport;
use super::html_story::article;
use super::kinds::counts_by_kind;
use super::markup::escaped;
use crate::story::{sentence_of, story_of};

/// The rules of style.
const STYLE: &str = include_str!("page.css");

/// Adds a button to each command that copies it. The page needs no script otherwise.
const SCRIPT: &str = include_str!("page.js");

/// What the page may load: nothing but its own style and script.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

impl ExploreReport {
    /// Returns the report as one page of HTML, which loads nothing and needs no script: the numbers, a table of the
    /// kinds of perturbations, and the story of each finding with a time line.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escaped(&self.scenario);
        let class = if self.findings.is_empty() {
            "clean"
        } else {
            "found"
        };
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>Exploration of {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <header>\n<h1>Exploration of {title}</h1>\n<p class=\"verdict {class}\">{}</p>\n",
            escaped(&self.verdict()),
        );
        if !self.operator.is_empty() {
            html.push_str(&format!(
                "<p class=\"operator\">Operator: <code>{}</code></p>\n",
                escaped(&self.operator)
            ));
        }
        html.push_str("</header>\n<main>\n");
        html.push_str(&self.contents());
        html.push_str("<h2 id=\"numbers\">What was tried</h2>\n");
        html.push_str(&list(&self.numbers()));
        html.push_str(&self.kinds_table());
        html.push_str(&details("Parts that vary from run to run", &self.varying));
        html.push_str(&details(
            "Requests that differ between two worlds with one seed",
            &self.unrepeatable,
        ));
        let states = &self.desired_states;
        html.push_str(&details("Fields without an effect", &states.without_effect));
        html.push_str(&details(
            "Desired states that the operator cannot reach",
            &states.unreachable,
        ));
        html.push_str(&details(
            "Desired states that would change a skipped field",
            &states.skipped,
        ));
        html.push_str(&details(
            "Points that were not tried, because the budget ended",
            &self.not_tried,
        ));
        if !self.findings.is_empty() {
            html.push_str("<h2 id=\"stories\">Stories</h2>\n");
        }
        for (at, finding) in self.findings.iter().enumerate() {
            let story = story_of(finding, &self.command_for(finding));
            html.push_str(&article(&story, &finding_id(at)));
        }
        html.push_str(&format!(
            "</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        ));
        html
    }

    /// Returns the list of findings with links to their stories.
    fn contents(&self) -> String {
        if self.findings.is_empty() {
            return String::new();
        }
        let items = self.findings.iter().enumerate().map(|(at, finding)| {
            format!(
                "<li><a href=\"#{}\"><code>{}</code></a> {}</li>\n",
                finding_id(at),
                escaped(&finding.name()),
                escaped(&sentence_of(finding)),
            )
        });
        let items: String = items.collect();
        format!(
            "<nav aria-labelledby=\"findings\">\n<h2 id=\"findings\">Findings</h2>\n<ol>\n{items}</ol>\n</nav>\n"
        )
    }

    fn kinds_table(&self) -> String {
        let kinds = counts_by_kind(self);
        if kinds.is_empty() {
            return String::new();
        }
        let rows = kinds.into_iter().map(|(name, counts)| {
            let cells = [
                (counts.tried, ""),
                (counts.found, " class=\"found\""),
                (counts.not_reached, ""),
            ];
            let cells = cells.map(|(number, class)| match number {
                0 => "<td class=\"none\">0</td>".to_owned(),
                number => format!("<td{class}>{number}</td>"),
            });
            format!("<tr><th scope=\"row\">{name}</th>{}</tr>\n", cells.concat())
        });
        let rows: String = rows.collect();
        format!(
            "<table>\n<caption>Points by kind of perturbation</caption>\n<thead><tr><th scope=\"col\">kind</th>\
             <th scope=\"col\">tried</th><th scope=\"col\">found</th><th scope=\"col\">not reached</th></tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table>\n"
        )
    }
}

fn finding_id(at: usize) -> String {
    format!("finding-{}", at + 1)
}

fn list(texts: &[String]) -> String {
    let items: String = texts
        .iter()
        .map(|text| format!("<li>{}</li>\n", escaped(text)))
        .collect();
    format!("<ul>\n{items}</ul>\n")
}

fn details(title: &str, texts: &[String]) -> String {
    if texts.is_empty() {
        return String::new();
    }
    format!(
        "<details>\n<summary>{title} ({})</summary>\n{}</details>\n",
        texts.len(),
        list(texts)
    )
}
