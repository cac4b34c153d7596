//! Machine: the state of the terminal view, and the effects of its keys.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::faults::{FaultWatch, ViewFault};
use super::requests::{RequestTally, ViewRequest};
use super::snapshot::{AttentionRow, OperatorSnapshot, ReconcileRow};
use super::tail::LogTail;

#[derive(Debug)]
pub(crate) struct ViewModel {
    pub(crate) heading: Heading,
    pub(crate) began: Instant,
    pub(crate) build: BuildState,
    pub(crate) operator: OperatorState,
    pub(crate) snapshot: OperatorSnapshot,
    /// The last reconciles of the running operator, oldest first.
    pub(crate) reconciles: VecDeque<ReconcileRow>,
    pub(crate) requests: RequestTally,
    pub(crate) faults: FaultWatch,
    /// The events of the session, oldest first.
    pub(crate) journal: VecDeque<JournalLine>,
    pub(crate) log: LogTail,
    pub(crate) has_help: bool,
    /// Since when the debug page does not answer; `None` if it does.
    pub(crate) unanswered: Option<Instant>,
    /// The id of the last known reconcile of each controller.
    last_ids: BTreeMap<String, u64>,
    /// The messages of failed reconciles that are in the journal, by controller and request.
    failures: BTreeMap<(String, String), String>,
}

/// The part of the terminal view that does not change.
#[derive(Clone, Debug)]
pub(crate) struct Heading {
    pub(crate) name: String,
    pub(crate) server: String,
    /// How other programs reach the API server, such as the path of a kubeconfig.
    pub(crate) access: String,
    pub(crate) shown: ShownParts,
}

/// The parts that a view can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownParts {
    /// An operator of this session with the embedded API server, which can inject faults and logs its requests.
    WithServer,
    /// An operator of this session with the API server of a cluster.
    WithCluster,
    /// A running operator elsewhere: there is no log of it.
    PageOnly,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BuildState {
    /// The build succeeded, or no build was needed.
    Good,
    /// The build has run since this instant; the text is the last line that cargo printed.
    Running(Instant, String),
    /// The build failed; the lines of the compiler start at the first error.
    Failed(Vec<String>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OperatorState {
    Absent,
    Running(Instant),
    Ended(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JournalLine {
    pub(crate) at: Instant,
    pub(crate) tone: Tone,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    /// An error.
    Bad,
    /// An injected fault of the embedded server.
    Fault,
    /// A success, such as the recovery from a fault.
    Good,
}

#[derive(Debug)]
pub(crate) enum ViewEvent {
    Key(KeyEvent),
    Said(String),
    Problem(String),
    BuildLine(String),
    BuildBegan,
    BuildEnded {
        is_good: bool,
    },
    OperatorStarted,
    OperatorStopped,
    OperatorEnded(String),
    LogLine(String),
    Snapshot(Box<OperatorSnapshot>),
    /// The debug page does not answer.
    Unanswered(String),
    Requests(Vec<ViewRequest>),
    /// The fault has had its full effect.
    Spent(ViewFault),
    Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ViewCommand {
    Quit,
    Restart,
    Inject(ViewFault),
    Lift(ViewFault),
}

/// The number of journal lines, and of reconciles, that are kept.
const KEPT: usize = 300;
/// The number of lines of a failed build that are kept.
const ERROR_LINES: usize = 60;
/// The number of lines that a page of the log has.
const PAGE: usize = 10;

impl ViewModel {
    pub(crate) fn new(heading: Heading, now: Instant) -> Self {
        Self {
            heading,
            began: now,
            build: BuildState::Good,
            operator: OperatorState::Absent,
            snapshot: OperatorSnapshot::default(),
            reconciles: VecDeque::new(),
            requests: RequestTally::default(),
            faults: FaultWatch::default(),
            journal: VecDeque::new(),
            log: LogTail::default(),
            has_help: false,
            unanswered: None,
            last_ids: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    /// Applies an event to the state, and returns the command for the driver, if any.
    pub(crate) fn update(&mut self, event: ViewEvent, now: Instant) -> Option<ViewCommand> {
        match event {
            ViewEvent::Key(key) => return self.press(key, now),
            ViewEvent::Said(text) => self.note(Tone::Plain, &text, now),
            ViewEvent::Problem(text) => self.note(Tone::Bad, &text, now),
            ViewEvent::BuildBegan => self.build = BuildState::Running(now, String::new()),
            ViewEvent::BuildLine(line) => self.log_build(&line),
            ViewEvent::BuildEnded { is_good } => {
                let lines = std::mem::take(&mut self.log.build);
                self.build = match is_good {
                    true => BuildState::Good,
                    false => BuildState::Failed(errors(lines)),
                };
            }
            ViewEvent::OperatorStarted => {
                self.forget_operator();
                self.operator = OperatorState::Running(now);
            }
            ViewEvent::OperatorStopped => {
                self.forget_operator();
                self.operator = OperatorState::Absent;
            }
            ViewEvent::OperatorEnded(how) => self.operator = OperatorState::Ended(how),
            ViewEvent::LogLine(line) => self.log.push(&line),
            ViewEvent::Snapshot(snapshot) => self.learn(*snapshot, now),
            // An operator of this session reports its own problems.
            ViewEvent::Unanswered(problem) if self.heading.shown == ShownParts::PageOnly => {
                self.unanswered = Some(now);
                self.note(Tone::Bad, &problem, now);
            }
            ViewEvent::Unanswered(_) => {}
            ViewEvent::Requests(requests) => {
                for request in requests {
                    self.requests.note(&request, now);
                    self.faults.note_request(&request, now);
                }
            }
            ViewEvent::Spent(fault) => {
                self.faults.lift(fault, now);
                let text = format!("{}: every one was sent", fault.words().name);
                self.note(Tone::Fault, &text, now);
            }
            ViewEvent::Tick => {}
        }
        for line in self.faults.settle(now) {
            self.note(Tone::Good, &line, now);
        }
        None
    }

    pub(crate) fn note(&mut self, tone: Tone, text: &str, at: Instant) {
        // An error may have several lines.
        for line in text.lines() {
            let text = line.to_owned();
            self.journal.push_back(JournalLine { at, tone, text });
        }
        while self.journal.len() > KEPT {
            self.journal.pop_front();
        }
    }

    fn press(&mut self, key: KeyEvent, now: Instant) -> Option<ViewCommand> {
        if key.is_release() {
            return None;
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'd') if with_control => return Some(ViewCommand::Quit),
            KeyCode::Char(_) if with_control => {}
            KeyCode::Esc if self.has_help => self.has_help = false,
            KeyCode::Char('q') => return Some(ViewCommand::Quit),
            KeyCode::Char('?' | 'h') => self.has_help = !self.has_help,
            KeyCode::Char('r') if self.heading.shown != ShownParts::PageOnly => {
                self.note(Tone::Plain, "restart", now);
                return Some(ViewCommand::Restart);
            }
            KeyCode::Char('p' | ' ') => self.log.pause_or_resume(),
            KeyCode::Up | KeyCode::Char('k') => self.log.scroll_up(1),
            KeyCode::Down | KeyCode::Char('j') => self.log.scroll_down(1),
            KeyCode::PageUp => self.log.scroll_up(PAGE),
            KeyCode::PageDown => self.log.scroll_down(PAGE),
            KeyCode::Home => self.log.scroll_up(usize::MAX),
            KeyCode::End | KeyCode::Esc => self.log.resume(),
            KeyCode::Char(char) => return self.press_fault(char, now),
            _ => {}
        }
        None
    }

    /// Injects the fault of a key, or lifts it if it lasts and is injected already.
    fn press_fault(&mut self, char: char, now: Instant) -> Option<ViewCommand> {
        let mut faults = ViewFault::ALL.into_iter();
        let fault = faults.find(|fault| fault.words().key == char)?;
        match self.heading.shown {
            ShownParts::WithServer => {}
            ShownParts::WithCluster => {
                let text = "faults are only there with the embedded API server, without --real";
                self.note(Tone::Bad, text, now);
                return None;
            }
            ShownParts::PageOnly => return None,
        }
        if self.faults.is_on(fault) {
            self.faults.lift(fault, now);
            self.note(Tone::Fault, &format!("{}: lifted", fault.words().name), now);
            return Some(ViewCommand::Lift(fault));
        }
        self.faults.inject(fault, now);
        let text = format!("{}: {}", fault.words().name, fault.effect());
        self.note(Tone::Fault, &text, now);
        Some(ViewCommand::Inject(fault))
    }

    fn log_build(&mut self, line: &str) {
        if let BuildState::Running(_, last) = &mut self.build {
            let trimmed = line.trim();
            if !trimmed.is_empty() {
                trimmed.clone_into(last);
            }
            self.log.push_build(line);
        }
    }

    fn forget_operator(&mut self) {
        self.snapshot = OperatorSnapshot::default();
        self.reconciles.clear();
        self.last_ids.clear();
        self.failures.clear();
        self.faults.forget_operator();
    }

    fn learn(&mut self, snapshot: OperatorSnapshot, now: Instant) {
        if self.unanswered.take().is_some() {
            self.note(Tone::Good, "the debug page answers again", now);
        }
        for one in &snapshot.controllers {
            let mut former = self.snapshot.controllers.iter();
            // Another process answers: its reconciles are numbered anew.
            if former.any(|former| former.name == one.name && former.finished > one.finished) {
                self.last_ids.remove(&one.name);
            }
        }
        for row in &snapshot.reconciles {
            let last = self.last_ids.entry(row.controller.clone()).or_default();
            if row.id <= *last {
                continue;
            }
            *last = row.id;
            self.note_result(row);
            self.reconciles.push_back(row.clone());
        }
        let sorted = self.reconciles.make_contiguous();
        sorted.sort_by_key(|row| row.ended);
        while self.reconciles.len() > KEPT {
            self.reconciles.pop_front();
        }
        self.faults.note_problems(snapshot.problems(), now);
        self.note_attention(&snapshot.attention, now);
        self.snapshot = snapshot;
    }

    /// Adds what needs attention since this snapshot, and what no longer does.
    fn note_attention(&mut self, items: &[AttentionRow], now: Instant) {
        let has = |rows: &[AttentionRow], item: &AttentionRow| {
            rows.iter().any(|row| row.subject == item.subject)
        };
        let former = std::mem::take(&mut self.snapshot.attention);
        for item in items.iter().filter(|item| !has(&former, item)) {
            self.note(Tone::Bad, &format!("{}: {}", item.title, item.detail), now);
        }
        for item in former.iter().filter(|item| !has(items, item)) {
            self.note(Tone::Good, &format!("no longer: {}", item.title), now);
        }
    }

    /// Adds the failure of a reconcile to the journal, unless the last failure of the request had the same message.
    fn note_result(&mut self, row: &ReconcileRow) {
        let request = (row.controller.clone(), row.request.clone());
        if row.is_good() {
            if self.failures.remove(&request).is_some() {
                let text = format!("{} {}: reconciled again", row.controller, row.request);
                self.note(Tone::Good, &text, row.ended);
            }
            return;
        }
        let message = format!("{} {}", row.result, row.message);
        let former = self.failures.insert(request, message.clone());
        if former.as_ref() != Some(&message) {
            let text = format!("{} {}: {message}", row.controller, row.request);
            self.note(Tone::Bad, &text, row.ended);
        }
    }
}

/// Returns a duration as a short text, such as `90 s` or `5 min`.
pub(crate) fn lasting(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

fn errors(lines: Vec<String>) -> Vec<String> {
    let is_error = |line: &String| line.starts_with("error");
    let first = lines.iter().position(is_error);
    let lines = lines.into_iter().skip(first.unwrap_or_default());
    lines.take(ERROR_LINES).collect()
}
