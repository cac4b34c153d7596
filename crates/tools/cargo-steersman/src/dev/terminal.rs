//! Driver: the terminal view: reads keys, requests data from the operator and the server, and draws.

use std::io::stdout;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossterm::event::{self, Event};
use crossterm::execute;
use crossterm::terminal::{Clear, ClearType};
use ratatui::DefaultTerminal;
use steersman_testenv::apiserver::ApiServer;
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::answered::OpenRequests;
use super::clock::now;
use super::injector::Injector;
use super::lines::is_of;
use super::output::{ViewMessage, ViewSender};
use super::view::model::{Heading, ViewCommand, ViewEvent, ViewModel};
use super::view::render::draw;
use super::view::requests::ViewRequest;
use super::view::snapshot::OperatorSnapshot;
use crate::dev::page_source::{PageSource, PageViews};
use crate::error::Error;

/// The terminal view while it is open. [`close`](Self::close) restores the terminal.
#[derive(Debug)]
pub(crate) struct TerminalView {
    closing: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// The requests that keys of the terminal view make to the session.
#[derive(Debug)]
pub(crate) struct ViewRequests {
    /// Completes when the quit key is pressed, and when the terminal view fails.
    pub(crate) quit: oneshot::Receiver<()>,
    /// Receives a message for each press of the restart key.
    pub(crate) restart: UnboundedReceiver<()>,
}

struct ViewLoop {
    model: ViewModel,
    has_colors: bool,
    terminal: OwnedTerminal,
    messages: UnboundedReceiver<ViewMessage>,
    lines: Receiver<ViewEvent>,
    keys: UnboundedReceiver<Event>,
    snapshots: (UnboundedSender<ViewEvent>, UnboundedReceiver<ViewEvent>),
    /// The task that polls the debug page of the operator.
    poll: Option<AbortOnDropHandle<()>>,
    /// The embedded server, its fault injector, and the requests that wait for an answer.
    embedded: Option<(ApiServer, Injector, OpenRequests)>,
    /// The name of the operator in the `User-Agent` of its requests.
    program: String,
    quit: Option<oneshot::Sender<()>>,
    restart: UnboundedSender<()>,
}

/// The terminal in raw mode. Dropping it restores the terminal.
struct OwnedTerminal {
    terminal: DefaultTerminal,
    keys_end: Arc<AtomicBool>,
}

/// The pause between two draws of the terminal view.
const PICTURE: Duration = Duration::from_millis(100);
/// The pause between two looks at the debug page.
const LOOK: Duration = Duration::from_millis(500);
/// How often the thread that reads the keys checks whether it has to end.
const KEYS: Duration = Duration::from_millis(100);
/// The number of output lines that may wait for the terminal view.
const WAITING: usize = 256;

impl TerminalView {
    /// Takes over the terminal. From now on, nothing else may write to the terminal.
    pub(crate) fn open(
        heading: Heading,
        embedded: Option<ApiServer>,
    ) -> Result<(Self, ViewSender, ViewRequests), Error> {
        let failed = || Error::file("the terminal", "drawn on");
        let terminal = OwnedTerminal {
            terminal: ratatui::try_init().map_err(failed())?,
            keys_end: Arc::default(),
        };
        // Clears the alternate screen, which some terminals do not. `Terminal::clear` would ask for the position of the
        // cursor, which not every terminal reports.
        execute!(stdout(), Clear(ClearType::All)).map_err(failed())?;
        let keys = read_keys(Arc::clone(&terminal.keys_end));
        let (messages, received) = unbounded_channel();
        let (lines, waiting) = channel(WAITING);
        let (quit, quits) = oneshot::channel();
        let (restart, restarts) = unbounded_channel();
        let (closing, closed) = oneshot::channel();
        let program = heading.name.clone();
        let running = ViewLoop {
            model: ViewModel::new(heading, now()),
            has_colors: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
            terminal,
            messages: received,
            lines: waiting,
            keys,
            snapshots: unbounded_channel(),
            poll: None,
            embedded: embedded.map(|server| {
                let injector = Injector::new(server.clone());
                (server, injector, OpenRequests::default())
            }),
            program,
            quit: Some(quit),
            restart,
        };
        let view = Self {
            closing,
            task: tokio::spawn(running.run(closed)),
        };
        let requests = ViewRequests {
            quit: quits,
            restart: restarts,
        };
        Ok((view, ViewSender { messages, lines }, requests))
    }

    pub(crate) async fn close(self) {
        // A failed send means that the view has failed and the terminal is restored already.
        let _ = self.closing.send(());
        let _ = self.task.await;
    }
}

impl ViewLoop {
    async fn run(mut self, mut closed: oneshot::Receiver<()>) {
        let mut pictures = interval(PICTURE);
        loop {
            let mut is_due = false;
            let event = tokio::select! {
                _ = &mut closed => return,
                Some(message) = self.messages.recv() => match message {
                    ViewMessage::Event(event) => event,
                    ViewMessage::Operator(name, source) => self.follow(name, source),
                },
                Some(key) = self.keys.recv() => {
                    is_due = true;
                    match key {
                        Event::Key(key) => ViewEvent::Key(key),
                        _ => ViewEvent::Tick,
                    }
                }
                Some(line) = self.lines.recv() => line,
                Some(snapshot) = self.snapshots.1.recv() => snapshot,
                _ = pictures.tick() => {
                    is_due = true;
                    self.look_at_server()
                }
            };
            if let ViewEvent::OperatorStopped | ViewEvent::OperatorEnded(_) = event {
                self.poll = None;
            }
            if let Some(command) = self.model.update(event, now()) {
                self.carry_out(command);
            }
            if is_due && self.draw().is_err() {
                // The terminal is lost. The end of this task ends the session.
                return;
            }
        }
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let (model, has_colors) = (&mut self.model, self.has_colors);
        let terminal = &mut self.terminal.terminal;
        terminal.draw(|frame| draw(frame, model, now(), has_colors))?;
        Ok(())
    }

    /// Switches to the debug page of a newly started operator.
    fn follow(&mut self, name: String, source: Option<PageSource>) -> ViewEvent {
        self.program = name;
        let sender = self.snapshots.0.clone();
        let poll = source.map(|source| tokio::spawn(poll(source, sender)));
        self.poll = poll.map(AbortOnDropHandle::new);
        ViewEvent::OperatorStarted
    }

    fn look_at_server(&mut self) -> ViewEvent {
        let Some((server, injector, open)) = &mut self.embedded else {
            return ViewEvent::Tick;
        };
        let program = &self.program;
        let records = open.answered(server.requests()).into_iter();
        let own = records.filter(|record| is_of(record, program));
        let requests = own.filter_map(|record| ViewRequest::of(&record)).collect();
        let event = ViewEvent::Requests(requests);
        if let Some(fault) = injector.spent() {
            self.model.update(event, now());
            return ViewEvent::Spent(fault);
        }
        event
    }

    fn carry_out(&mut self, command: ViewCommand) {
        match command {
            ViewCommand::Quit => {
                if let Some(quit) = self.quit.take() {
                    // A failed send means that the session is ending.
                    let _ = quit.send(());
                }
            }
            ViewCommand::Restart => {
                let _ = self.restart.send(());
            }
            ViewCommand::Inject(fault) => {
                if let Some((_, injector, _)) = &mut self.embedded
                    && let Err(problem) = injector.inject(fault, &self.program)
                {
                    self.model.update(ViewEvent::Problem(problem), now());
                }
            }
            ViewCommand::Lift(fault) => {
                if let Some((_, injector, _)) = &mut self.embedded {
                    injector.lift(fault);
                }
            }
        }
    }
}

/// Reads the keys in a separate thread, because reading a terminal blocks.
fn read_keys(end: Arc<AtomicBool>) -> UnboundedReceiver<Event> {
    let (sender, receiver) = unbounded_channel();
    std::thread::spawn(move || {
        while !end.load(Ordering::Relaxed) {
            let read = match event::poll(KEYS) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(error) => Err(error),
            };
            let sent = read.map(|event| sender.send(event));
            // The thread ends if the terminal cannot be read or the view has closed the channel.
            if !matches!(sent, Ok(Ok(()))) {
                return;
            }
        }
    });
    receiver
}

/// Polls the debug page of an operator. Tells the view once when the page stops to answer.
async fn poll(source: PageSource, sender: UnboundedSender<ViewEvent>) {
    let mut views = PageViews::default();
    let mut is_answered = true;
    loop {
        let event = match source.renew(&mut views).await {
            Ok(()) => {
                is_answered = true;
                let snapshot = OperatorSnapshot::read(&views, now());
                Some(ViewEvent::Snapshot(Box::new(snapshot)))
            }
            Err(problem) => {
                let is_new = std::mem::take(&mut is_answered);
                is_new.then(|| ViewEvent::Unanswered(problem.to_string()))
            }
        };
        if event.is_some_and(|event| sender.send(event).is_err()) {
            return;
        }
        sleep(LOOK).await;
    }
}

impl Drop for OwnedTerminal {
    fn drop(&mut self) {
        self.keys_end.store(true, Ordering::Relaxed);
        // An error is ignored: no other way to restore the terminal exists.
        let _ = ratatui::try_restore();
    }
}
