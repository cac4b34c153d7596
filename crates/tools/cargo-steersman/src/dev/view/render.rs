//! Machine: draws the terminal view.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Stylize as _};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Borders, Clear, Paragraph};

use super::faults::ViewFault;
use super::model::{BuildState, OperatorState, ShownParts, Tone, ViewModel, lasting};

const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const FAULT: Color = Color::Yellow;
const DIM: Color = Color::DarkGray;
/// The terminal height below which only the heading, the journal and the log are shown.
const SMALL: u16 = 18;

pub(crate) fn draw(frame: &mut Frame<'_>, model: &mut ViewModel, now: Instant, has_colors: bool) {
    let area = frame.area();
    let spare = area.height.saturating_sub(24);
    // The build errors take the rows of the reconciles and requests.
    let has_errors = matches!(model.build, BuildState::Failed(_));
    let is_embedded = model.heading.shown == ShownParts::WithServer;
    let reconciles = if has_errors { 0 } else { 5 + spare / 4 };
    let requests = match is_embedded && !has_errors {
        true => 3 + spare / 8,
        false => 0,
    };
    let top = match model.build {
        BuildState::Good => 2,
        _ => 3,
    };
    // The heights include the title row of each part.
    let heights = match area.height < SMALL {
        true => [top, 0, 0, 0, (area.height / 4).max(2)],
        false => [top, 4 + spare / 8, reconciles, requests, 5 + spare / 6],
    };
    let [heading, tables, reconciles, requests, journal] = heights.map(Constraint::Length);
    let (rest, line) = (Constraint::Min(0), Constraint::Length(1));
    let rows = Layout::vertical([heading, tables, reconciles, requests, journal, rest, line]);
    let [heading, tables, reconciles, requests, journal, log, footer] = rows.areas(area);
    draw_heading(frame, heading, model, now);
    let [kinds, controllers] = Layout::horizontal([Constraint::Percentage(50); 2]).areas(tables);
    draw_kinds(frame, kinds, model);
    draw_controllers(frame, controllers, model);
    draw_reconciles(frame, reconciles, model, now);
    if is_embedded {
        draw_requests(frame, requests, model, now);
    }
    draw_journal(frame, journal, model);
    match model.heading.shown {
        ShownParts::PageOnly => draw_attention(frame, log, model),
        ShownParts::WithServer | ShownParts::WithCluster => draw_log(frame, log, model),
    }
    draw_footer(frame, footer, model);
    if model.has_help {
        draw_help(frame, area, model);
    }
    if !has_colors {
        for cell in &mut frame.buffer_mut().content {
            cell.fg = Color::Reset;
        }
    }
}

fn draw_heading(frame: &mut Frame<'_>, area: Rect, model: &ViewModel, now: Instant) {
    let since = |at: &Instant| lasting(now.saturating_duration_since(*at));
    let mut spans = vec![
        model.heading.name.as_str().bold(),
        format!(" at {}  ", model.heading.server).into(),
        match &model.operator {
            _ if model.heading.shown == ShownParts::PageOnly => match &model.unanswered {
                None => model.snapshot.role.as_str().fg(GOOD),
                Some(at) => format!("has not answered for {}: all below is old", since(at)).fg(BAD),
            },
            OperatorState::Absent => "not running".into(),
            OperatorState::Running(at) => format!("running for {}", since(at)).fg(GOOD),
            OperatorState::Ended(how) => format!("ended: {how}").fg(BAD),
        },
    ];
    for (fault, is_over) in model.faults.present() {
        let end = if is_over { " (recovering)" } else { "" };
        spans.push(format!("  [{}{end}]", fault.words().name).fg(FAULT));
    }
    let access = model.heading.access.as_str();
    let mut lines = vec![Line::from(spans), Line::styled(access, DIM)];
    match &model.build {
        BuildState::Good => {}
        BuildState::Running(at, line) => {
            let text = format!("building for {}: {line}", since(at));
            lines.push(Line::styled(text, FAULT));
        }
        BuildState::Failed(_) => {
            let text = match &model.operator {
                OperatorState::Running(_) => "the build failed, so the former program runs",
                _ => "the build failed",
            };
            lines.push(Line::styled(text, BAD));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_kinds(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let kinds = &model.snapshot.kinds;
    let states = kinds.iter().map(|kind| kind.state.chars().count());
    // The number of objects has seven columns, and each part a space after it.
    let others = 9 + states.max().unwrap_or_default();
    let rows = kinds.iter().map(|kind| {
        let name = column(&kind.name, usize::from(area.width).saturating_sub(others));
        let state = kind.state.as_str().fg(by_success(kind.is_good));
        Line::from(vec![format!("{name} {:>6} ", kind.objects).into(), state])
    });
    draw_panel(frame, area, "Kinds: objects, state", rows.collect());
}

fn draw_controllers(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut rows = Vec::new();
    for one in &model.snapshot.controllers {
        let name = column(&one.name, usize::from(area.width).saturating_sub(30));
        let numbers = format!(
            "{:>7} {:>7} {:>7} {:>5}",
            one.ready, one.running, one.delayed, one.finished
        );
        rows.push(Line::from(format!("{name} {numbers}")));
        let waiting = one.waiting_for.iter();
        rows.extend(waiting.map(|kind| Line::styled(format!("  waits for {kind}"), BAD)));
    }
    let title = "Controllers: ready, running, delayed, done";
    draw_panel(frame, area, title, rows);
}

fn draw_reconciles(frame: &mut Frame<'_>, area: Rect, model: &ViewModel, now: Instant) {
    let rows = model.reconciles.iter().rev().take(usize::from(area.height));
    let rows = rows.map(|row| {
        let ago = lasting(now.saturating_duration_since(row.ended));
        let millis = row.took.as_secs_f64() * 1000.0;
        let semicolon = if row.message.is_empty() { "" } else { "; " };
        let (controller, request) = (&row.controller, &row.request);
        Line::from(vec![
            format!("{ago:>6}  {controller} {request}  ").into(),
            row.result.as_str().fg(by_success(row.is_good())),
            format!(" {millis:.1} ms  {}{semicolon}{}", row.message, row.reason).into(),
        ])
    });
    draw_panel(frame, area, "Reconciles", rows.collect());
}

fn draw_requests(frame: &mut Frame<'_>, area: Rect, model: &mut ViewModel, now: Instant) {
    let title = format!("Requests: {}", model.requests.summary(now));
    let refused = model.requests.refused().take(usize::from(area.height));
    let rows = refused.map(|(at, text)| {
        let ago = lasting(now.saturating_duration_since(*at));
        Line::from(vec![format!("{ago:>6}  ").into(), text.as_str().fg(BAD)])
    });
    draw_panel(frame, area, &title, rows.collect());
}

fn draw_journal(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let height = usize::from(area.height.saturating_sub(1));
    let skipped = model.journal.len().saturating_sub(height);
    let rows = model.journal.iter().skip(skipped).map(|line| {
        let at = line.at.saturating_duration_since(model.began);
        let color = match line.tone {
            Tone::Plain => Color::Reset,
            Tone::Bad => BAD,
            Tone::Fault => FAULT,
            Tone::Good => GOOD,
        };
        let at = format!("{:7.2}s  ", at.as_secs_f64());
        Line::from(vec![at.into(), line.text.as_str().fg(color)])
    });
    draw_panel(frame, area, "Events", rows.collect());
}

/// Shows the errors of a failed build above the log.
fn draw_log(frame: &mut Frame<'_>, mut area: Rect, model: &ViewModel) {
    if let BuildState::Failed(lines) = &model.build {
        let halves = Layout::vertical([Constraint::Percentage(60), Constraint::Min(0)]);
        let [errors, rest] = halves.areas(area);
        let lines = lines.iter().map(|line| Line::raw(line.as_str()));
        draw_panel(frame, errors, "The build failed", lines.collect());
        area = rest;
    }
    let title = match model.log.below() {
        None => "Log".to_owned(),
        Some(below) => format!("Log, paused; {below} more lines below"),
    };
    let height = usize::from(area.height.saturating_sub(1));
    let lines = model.log.shown(height).map(|line| {
        let color = match line {
            line if line.contains(" ERROR ") => BAD,
            line if line.contains(" WARN ") => FAULT,
            _ => Color::Reset,
        };
        Line::styled(line, color)
    });
    draw_panel(frame, area, &title, lines.collect());
}

/// Shows what needs attention, with what helps.
fn draw_attention(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut rows = Vec::new();
    for item in &model.snapshot.attention {
        rows.push(Line::styled(item.title.as_str(), BAD));
        rows.push(Line::from(format!("  {}", item.detail)));
        let remedy = item.remedy.iter().flat_map(|remedy| remedy.lines());
        rows.extend(remedy.map(|line| Line::styled(format!("  > {line}"), GOOD)));
    }
    if rows.is_empty() {
        rows.push(Line::styled("nothing", DIM));
    }
    draw_panel(frame, area, "What needs attention", rows);
}

fn draw_panel(frame: &mut Frame<'_>, area: Rect, title: &str, rows: Vec<Line<'_>>) {
    let block = Block::new().borders(Borders::TOP).border_style(DIM);
    let block = block.title(format!(" {title} ").bold());
    frame.render_widget(Paragraph::new(rows).block(block), area);
}

fn by_success(is_good: bool) -> Color {
    if is_good { GOOD } else { BAD }
}

fn draw_footer(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut text = match model.heading.shown {
        ShownParts::PageOnly => "? help  q quit".to_owned(),
        _ => "? help  q quit  r restart  p pause".to_owned(),
    };
    if model.heading.shown == ShownParts::WithServer {
        for fault in ViewFault::ALL {
            let words = fault.words();
            text.push_str(&format!("  {} {}", words.key, words.short));
        }
    }
    frame.render_widget(text.bold(), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let mut lines = Text::from("q  ctrl-c     end");
    if model.heading.shown != ShownParts::PageOnly {
        lines.extend([
            "r             restart the operator",
            "p             pause or follow the log",
            "↑ ↓ PgUp PgDn scroll the log; Home is its begin, End follows it",
        ]);
    }
    lines.extend(["?             this help"]);
    if model.heading.shown == ShownParts::WithServer {
        lines.extend(["", "Faults; o, s and c a second time end theirs:"]);
        lines.extend(ViewFault::ALL.map(|fault| {
            let words = fault.words();
            format!("{}  {:<11} {}", words.key, words.name, fault.effect())
        }));
    }
    let height = u16::try_from(lines.height() + 2).unwrap_or(u16::MAX);
    let place = area.centered(Constraint::Length(76), Constraint::Length(height));
    let block = Block::new().borders(Borders::ALL).title(" Keys ");
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

/// Returns a text that is exactly `width` columns wide: padded or cut.
fn column(text: &str, width: usize) -> String {
    let length = text.chars().count();
    match length > width {
        true if width > 1 => text.chars().take(width - 1).chain(['…']).collect(),
        _ => format!("{text:<width$}"),
    }
}

#[cfg(test)]
mod tests;
