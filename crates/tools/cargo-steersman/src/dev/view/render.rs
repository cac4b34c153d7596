//! Machine: draws the view.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::faults::ViewFault;
use super::model::{BuildState, Heading, OperatorState, Tone, ViewModel};

/// Draws the view; with colors unless the terminal is not to have any.
pub(crate) struct Painter {
    pub(crate) has_colors: bool,
}

/// The height below which only the heading, the journal and the log are shown.
const SMALL: u16 = 18;

impl Painter {
    pub(crate) fn draw(&self, frame: &mut Frame<'_>, model: &mut ViewModel, now: Instant) {
        let area = frame.area();
        let small = area.height < SMALL;
        let spare = area.height.saturating_sub(24);
        // The errors of a build get the rows of reconciles and requests.
        let has_errors = matches!(model.build, BuildState::Failed(_));
        let reconciles = if has_errors { 0 } else { 5 + spare / 4 };
        let requests = match model.heading.is_embedded && !has_errors {
            true => 3 + spare / 8,
            false => 0,
        };
        let top = match model.build {
            BuildState::Good => 2,
            _ => 3,
        };
        // With the rows of the titles.
        let heights = match small {
            true => [top, 0, 0, 0, (area.height / 4).max(2)],
            false => [top, 4 + spare / 8, reconciles, requests, 5 + spare / 6],
        };
        let [heading, tables, reconciles, requests, journal] = heights.map(Constraint::Length);
        let rows = Layout::vertical([
            heading,
            tables,
            reconciles,
            requests,
            journal,
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [heading, tables, reconciles, requests, journal, log, footer] = rows.areas(area);
        self.heading(frame, heading, model, now);
        let [kinds, controllers] =
            Layout::horizontal([Constraint::Percentage(50); 2]).areas(tables);
        self.kinds(frame, kinds, model);
        self.controllers(frame, controllers, model);
        self.reconciles(frame, reconciles, model, now);
        if model.heading.is_embedded {
            self.requests(frame, requests, model, now);
        }
        self.journal(frame, journal, model);
        self.log(frame, log, model);
        draw_footer(frame, footer, model);
        if model.has_help {
            draw_help(frame, area, model);
        }
    }

    fn heading(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel, now: Instant) {
        let since = |at: &Instant| Heading::lasting(now.saturating_duration_since(*at));
        let mut spans = vec![
            Span::styled(model.heading.name.as_str(), strong()),
            format!(" at {}  ", model.heading.server).into(),
        ];
        match &model.operator {
            OperatorState::Absent => spans.push("not running".into()),
            OperatorState::Running(at) => {
                spans.push(Span::styled(
                    format!("running for {}", since(at)),
                    self.good(),
                ));
            }
            OperatorState::Ended(how) => {
                spans.push(Span::styled(format!("ended: {how}"), self.bad()));
            }
        }
        for (fault, is_over) in model.faults.present() {
            let end = if is_over { " (recovering)" } else { "" };
            let text = format!("  [{}{end}]", fault.name());
            spans.push(Span::styled(text, self.fault()));
        }
        let access = Line::styled(model.heading.access.as_str(), self.dim());
        let mut lines = vec![Line::from(spans), access];
        match &model.build {
            BuildState::Good => {}
            BuildState::Running(at, line) => {
                let text = format!("building for {}: {line}", since(at));
                lines.push(Line::styled(text, self.fault()));
            }
            BuildState::Failed(_) => {
                let text = match &model.operator {
                    OperatorState::Running(_) => "the build failed, so the former program runs",
                    _ => "the build failed",
                };
                lines.push(Line::styled(text, self.bad()));
            }
        }
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn kinds(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
        let rows = model.snapshot.kinds.iter().map(|kind| {
            let objects = match kind.objects {
                Some(objects) => objects.to_string(),
                None => "-".to_owned(),
            };
            let style = if kind.is_good {
                self.good()
            } else {
                self.bad()
            };
            let name = column(&kind.name, usize::from(area.width).saturating_sub(20));
            Line::from(vec![
                format!("{name} {objects:>6} ").into(),
                Span::styled(kind.state.clone(), style),
            ])
        });
        let rows = rows.collect();
        self.panel(frame, area, "Kinds: objects, state", rows);
    }

    fn controllers(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
        let mut rows = Vec::new();
        for one in &model.snapshot.controllers {
            let name = column(&one.name, usize::from(area.width).saturating_sub(30));
            let numbers = format!(
                "{:>7} {:>7} {:>7} {:>5}",
                one.ready, one.running, one.retries, one.finished
            );
            rows.push(Line::from(format!("{name} {numbers}")));
            let waiting = one.waiting_for.iter();
            rows.extend(
                waiting.map(|kind| Line::styled(format!("  waits for {kind}"), self.bad())),
            );
        }
        let title = "Controllers: waiting, running, retries, done";
        self.panel(frame, area, title, rows);
    }

    fn reconciles(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel, now: Instant) {
        let rows = model.reconciles.iter().rev().take(usize::from(area.height));
        let rows = rows.map(|row| {
            let ago = Heading::lasting(now.saturating_duration_since(row.ended));
            let millis = row.took.as_secs_f64() * 1000.0;
            let style = if row.is_good() {
                self.good()
            } else {
                self.bad()
            };
            let end = match row.message.is_empty() {
                true => row.reason.clone(),
                false => format!("{}; {}", row.message, row.reason),
            };
            Line::from(vec![
                format!("{ago:>6}  {} {}  ", row.controller, row.request).into(),
                Span::styled(row.result.clone(), style),
                format!(" {millis:.1} ms  {end}").into(),
            ])
        });
        let rows = rows.collect();
        self.panel(frame, area, "Reconciles", rows);
    }

    fn requests(&self, frame: &mut Frame<'_>, area: Rect, model: &mut ViewModel, now: Instant) {
        let title = format!("Requests: {}", model.requests.summary(now));
        let refused = model.requests.refused().take(usize::from(area.height));
        let rows = refused.map(|(at, text)| {
            let ago = Heading::lasting(now.saturating_duration_since(*at));
            Line::from(vec![
                format!("{ago:>6}  ").into(),
                Span::styled(text.clone(), self.bad()),
            ])
        });
        let rows = rows.collect();
        self.panel(frame, area, &title, rows);
    }

    fn journal(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
        let height = usize::from(area.height.saturating_sub(1));
        let skipped = model.journal.len().saturating_sub(height);
        let rows = model.journal.iter().skip(skipped).map(|line| {
            let at = line.at.saturating_duration_since(model.began);
            let style = match line.tone {
                Tone::Plain => Style::default(),
                Tone::Bad => self.bad(),
                Tone::Fault => self.fault(),
                Tone::Good => self.good(),
            };
            let at = format!("{:7.2}s  ", at.as_secs_f64());
            Line::from(vec![at.into(), Span::styled(line.text.clone(), style)])
        });
        let rows = rows.collect();
        self.panel(frame, area, "Events", rows);
    }

    /// Shows the errors of a failed build above the log.
    fn log(&self, frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
        let mut area = area;
        if let BuildState::Failed(lines) = &model.build {
            let halves = Layout::vertical([Constraint::Percentage(60), Constraint::Min(0)]);
            let [errors, rest] = halves.areas(area);
            let lines = lines.iter().map(|line| Line::raw(line.as_str())).collect();
            self.panel(frame, errors, "The build failed", lines);
            area = rest;
        }
        let title = match model.log.below() {
            None => "Log".to_owned(),
            Some(below) => format!("Log, paused; {below} more lines below"),
        };
        let height = usize::from(area.height.saturating_sub(1));
        let lines = model.log.shown(height).map(|line| {
            let style = match line {
                line if line.contains(" ERROR ") => self.bad(),
                line if line.contains(" WARN ") => self.fault(),
                _ => Style::default(),
            };
            Line::styled(line, style)
        });
        let lines = lines.collect();
        self.panel(frame, area, &title, lines);
    }

    fn panel(&self, frame: &mut Frame<'_>, area: Rect, title: &str, rows: Vec<Line<'_>>) {
        let title = Span::styled(format!(" {title} "), strong());
        let block = Block::new().borders(Borders::TOP).border_style(self.dim());
        let block = block.title(title);
        frame.render_widget(Paragraph::new(rows).block(block), area);
    }

    fn color(&self, color: Color) -> Style {
        match self.has_colors {
            true => Style::default().fg(color),
            false => Style::default(),
        }
    }

    fn good(&self) -> Style {
        self.color(Color::Green)
    }

    fn bad(&self) -> Style {
        self.color(Color::Red)
    }

    fn fault(&self) -> Style {
        self.color(Color::Yellow)
    }

    fn dim(&self) -> Style {
        self.color(Color::DarkGray)
    }
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut text = "? help  q quit  r restart  p pause".to_owned();
    if model.heading.is_embedded {
        for fault in ViewFault::ALL {
            text.push_str(&format!("  {} {}", fault.key(), fault.short()));
        }
    }
    frame.render_widget(Line::styled(text, strong()), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut lines = vec![
        "q  ctrl-c     end".to_owned(),
        "r             restart the operator".to_owned(),
        "p             pause or follow the log".to_owned(),
        "↑ ↓ PgUp PgDn scroll the log; Home is its begin, End follows it".to_owned(),
        "?             this help".to_owned(),
    ];
    if model.heading.is_embedded {
        lines.push(String::new());
        lines.push("Faults; o, s and c a second time end theirs:".to_owned());
        let faults = ViewFault::ALL.into_iter();
        lines.extend(
            faults.map(|fault| format!("{}  {:<11} {}", fault.key(), fault.name(), fault.effect())),
        );
    }
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let [row] = Layout::vertical([Constraint::Length(height)])
        .flex(ratatui::layout::Flex::Center)
        .areas(area);
    let [place] = Layout::horizontal([Constraint::Length(76)])
        .flex(ratatui::layout::Flex::Center)
        .areas(row);
    let block = Block::new().borders(Borders::ALL).title(" Keys ");
    let lines: Vec<Line<'_>> = lines.into_iter().map(Line::from).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

fn strong() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

/// Returns a text that is exactly as wide: filled up, or cut.
fn column(text: &str, width: usize) -> String {
    let length = text.chars().count();
    match length > width {
        true if width > 1 => text.chars().take(width - 1).chain(['…']).collect(),
        _ => format!("{text:<width$}"),
    }
}

#[cfg(test)]
mod tests;
