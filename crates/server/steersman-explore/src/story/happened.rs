//! Machine: tells the events of a world in order.

use std::time::Duration;

use serde_json::Value;
use steersman_apimachinery::secret_values::hide;

use super::plain_text::{clean, count, one_line};
use super::request_run::RequestRun;
use super::secret_values::SecretValues;
use super::step_text::user_text;
use super::story_line::{DiffLine, DiffSign, EventLine, EventMark};
use super::yaml_diff::{at_most, difference, without_server_fields};
use crate::finding::Finding;
use crate::perturbation::{Perturbation, PerturbationKind};
use crate::request::{OperatorRequest, RequestVerb};
use crate::world_event::{ObjectChange, WorldEvent, WorldEventKind};

/// The number of lines of YAML of one write.
const MOST_LINES_OF_WRITE: usize = 30;

/// The number of lines of output that a process printed last.
const MOST_OUTPUT: usize = 20;

/// The number of events that a story tells without leaving some out.
const MOST_EVENTS: usize = 120;

/// The number of events at the start of the world that are never left out.
const FIRST_EVENTS: usize = 50;

/// The number of events at the end of the world that are never left out.
const LAST_EVENTS: usize = 30;

/// The number of events before and after each of the first perturbations that are never left out.
const EVENTS_AROUND: usize = 8;

/// The number of perturbations, starts and similar events that keep the events around them.
const MOST_TURNS: usize = 12;

/// The events of a world that are told so far.
struct EventTeller<'a> {
    finding: &'a Finding,
    known: &'a SecretValues,
    /// Similar requests that follow each other, which get one line.
    run: RequestRun,
    /// Each line with the change that it shows. Differences are made last, because most lines of a long world are left
    /// out.
    lines: Vec<(EventLine, Option<&'a ObjectChange>)>,
}

/// Tells the events of the world of a finding.
pub(crate) fn happened(finding: &Finding, known: &SecretValues) -> Vec<EventLine> {
    let mut teller = EventTeller {
        finding,
        known,
        run: RequestRun::default(),
        lines: Vec::new(),
    };
    for event in &finding.events {
        teller.add(event);
    }
    teller.end_run();
    leave_out(teller.lines)
}

/// Returns a write of the operator with its number, as in `write 3 (create configmaps shop/pages)`.
pub(crate) fn write_text(events: &[WorldEvent], number: usize) -> String {
    let found = events.iter().find_map(|event| match &event.what {
        WorldEventKind::Wrote {
            request,
            number: Some(of_write),
            ..
        } => (*of_write == number).then_some(request),
        _ => None,
    });
    match found {
        Some(request) => format!("write {number} ({})", one_line(&request.to_string())),
        None => format!("write {number}"),
    }
}

impl<'a> EventTeller<'a> {
    fn add(&mut self, event: &'a WorldEvent) {
        let at = event.at;
        match &event.what {
            WorldEventKind::Read { request, code } => {
                let outcome = match code {
                    Some(200) => String::new(),
                    Some(code) => format!(" → {code}"),
                    None => " → no answer".to_owned(),
                };
                self.run
                    .add(at, (EventMark::Read, "read"), request, outcome);
            }
            WorldEventKind::Wrote {
                request,
                number,
                code,
                change,
            } => {
                let mark = EventMark::Write {
                    number: *number,
                    code: *code,
                };
                if number.is_none() && !change.as_ref().is_some_and(takes_lease) {
                    self.run
                        .add(at, (mark, "write"), request, outcome_of(*code));
                    return;
                }
                self.wrote(at, mark, request, change.as_ref());
            }
            WorldEventKind::User(text) => {
                let text = user_text(text, self.finding, self.known);
                self.push(EventLine::new(at, EventMark::User, "user", text), None);
            }
            WorldEventKind::Started { process } => {
                let text = format!("process {process} of the operator starts");
                self.push(EventLine::new(at, EventMark::Started, "start", text), None);
            }
            WorldEventKind::Exited {
                process,
                how,
                output,
            } => {
                let how = one_line(&self.known.hide_in(how));
                let text = format!("process {process} of the operator ends by itself: {how}");
                let mut line = EventLine::new(at, EventMark::Exited, "exit", text);
                line.output = last_lines(output, self.known);
                self.push(line, None);
            }
            WorldEventKind::Perturbed(text) => {
                self.push(
                    EventLine::new(at, EventMark::Perturbed, ">>>", one_line(text)),
                    None,
                );
            }
            WorldEventKind::Quiet => {
                let text = "the operator is quiet".to_owned();
                self.push(EventLine::new(at, EventMark::Quiet, "quiet", text), None);
            }
        }
    }

    fn wrote(
        &mut self,
        at: Duration,
        mark: EventMark,
        request: &OperatorRequest,
        change: Option<&'a ObjectChange>,
    ) {
        let (label, told, outcome) = match mark {
            EventMark::Write {
                number: Some(number),
                code,
            } => {
                let told = told_instead(&self.finding.perturbations, number);
                (format!("write {number}"), told, outcome_of(code))
            }
            EventMark::Write { number: None, code } => ("write".to_owned(), None, outcome_of(code)),
            _ => ("write".to_owned(), None, String::new()),
        };
        let mut text = format!("{}{outcome}", one_line(&request.to_string()));
        let mut shown = None;
        match change {
            Some(ObjectChange {
                id, after: None, ..
            }) => {
                text.push_str(&format!(", {} is gone", one_line(&id.to_string())));
            }
            Some(change) => shown = Some(change),
            None if is_success(mark) => match request.verb {
                RequestVerb::Delete | RequestVerb::DeleteCollection => {}
                _ => text.push_str(", which changes nothing"),
            },
            None => {}
        }
        if let Some(told) = told {
            text.push_str(&format!(" ({told})"));
        }
        self.push(EventLine::new(at, mark, &label, text), shown);
    }

    fn push(&mut self, line: EventLine, change: Option<&'a ObjectChange>) {
        self.end_run();
        self.lines.push((line, change));
    }

    fn end_run(&mut self) {
        let lines = self.run.take().into_iter();
        self.lines.extend(lines.map(|line| (line, None)));
    }
}

fn outcome_of(code: Option<u16>) -> String {
    match code {
        Some(code) => format!(" → {code}"),
        None => " → not carried out".to_owned(),
    }
}

fn is_success(mark: EventMark) -> bool {
    matches!(
        mark,
        EventMark::Write {
            code: Some(200..=299),
            ..
        }
    )
}

/// Returns what the operator learns about a write instead of the answer of the server.
fn told_instead(perturbations: &[Perturbation], number: usize) -> Option<String> {
    let mut at_write = perturbations
        .iter()
        .filter(|one| one.at == number && !one.kind.is_at_read());
    at_write.find_map(|one| match one.kind {
        PerturbationKind::LostAnswer => Some("the operator is told 504".to_owned()),
        PerturbationKind::Refuse => Some(format!("the operator is told {}", one.detail)),
        PerturbationKind::CrashAfterWrite | PerturbationKind::StaleRestart => {
            Some("the answer never arrives".to_owned())
        }
        _ => None,
    })
}

/// Returns whether a change gives a Lease to another holder.
fn takes_lease(change: &ObjectChange) -> bool {
    let holder = |object: &Option<Value>| {
        let object = object.as_ref()?;
        object["spec"]["holderIdentity"].as_str().map(str::to_owned)
    };
    change.id.kind == "Lease" && holder(&change.before) != holder(&change.after)
}

fn lines_of(change: &ObjectChange) -> Vec<DiffLine> {
    let kind = &change.id.kind;
    let shown = |object: &Option<Value>| {
        let object = object.as_ref()?;
        Some(without_server_fields(&hide(object, kind)))
    };
    let lines = difference(
        shown(&change.before).as_ref(),
        shown(&change.after).as_ref(),
    );
    if lines.is_empty() {
        return vec![DiffLine::new(
            DiffSign::Note,
            "only fields of the server change",
        )];
    }
    at_most(lines, MOST_LINES_OF_WRITE)
}

/// Returns the last lines of an output, without values of Secrets.
pub(crate) fn last_lines(output: &[String], known: &SecretValues) -> Vec<String> {
    let output = clean(&known.hide_in(&output.join("\n")));
    let lines: Vec<&str> = output.trim_end().lines().map(str::trim_end).collect();
    let skipped = lines.len().saturating_sub(MOST_OUTPUT);
    lines[skipped..]
        .iter()
        .map(|line| (*line).to_owned())
        .collect()
}

/// Leaves out events in the middle of a long world, but none near a perturbation. Events that stay get their
/// differences.
fn leave_out(lines: Vec<(EventLine, Option<&ObjectChange>)>) -> Vec<EventLine> {
    let is_turn = |line: &EventLine| {
        let mark = line.mark;
        matches!(
            mark,
            EventMark::Perturbed | EventMark::Exited | EventMark::Started | EventMark::User
        )
    };
    let turns = lines
        .iter()
        .enumerate()
        .filter(|(_, (line, _))| is_turn(line));
    let turns: Vec<usize> = turns.map(|(at, _)| at).take(MOST_TURNS).collect();
    let number = lines.len();
    let is_kept = |at: usize| {
        number <= MOST_EVENTS
            || at < FIRST_EVENTS
            || at + LAST_EVENTS >= number
            || turns.iter().any(|turn| turn.abs_diff(at) <= EVENTS_AROUND)
    };
    let mut told: Vec<EventLine> = Vec::new();
    let mut left_out: Vec<EventLine> = Vec::new();
    for (at, (mut line, change)) in lines.into_iter().enumerate() {
        if is_kept(at) {
            told.extend(replaced(std::mem::take(&mut left_out)));
            line.diff = change.map(lines_of).unwrap_or_default();
            told.push(line);
        } else {
            left_out.push(line);
        }
    }
    told
}

/// Returns the line that stands for events that are left out. A single event stays.
fn replaced(left_out: Vec<EventLine>) -> Vec<EventLine> {
    let (Some(first), 2..) = (left_out.first(), left_out.len()) else {
        return left_out;
    };
    let at = first.at;
    let writes = left_out
        .iter()
        .filter(|line| matches!(line.mark, EventMark::Write { .. }))
        .count();
    let others = left_out.len() - writes;
    let text = match (writes, others) {
        (writes, 0) => format!("{} left out", count(writes, "write is", "writes are")),
        (0, others) => format!("{} left out", count(others, "event is", "events are")),
        (writes, others) => {
            let writes = count(writes, "write", "writes");
            format!(
                "{writes} and {} are left out",
                count(others, "other event", "other events")
            )
        }
    };
    vec![EventLine::new(at, EventMark::LeftOut, "…", text)]
}
