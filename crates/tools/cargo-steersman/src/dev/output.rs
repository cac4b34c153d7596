//! Driver: writes the output of a session and of its programs to the terminal or into the terminal view.

use std::fmt::Display;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc::{Sender, UnboundedSender};
use tokio::time::Instant;

use super::view::model::ViewEvent;
use crate::dev::page_source::PageSource;
use crate::screen::say;

#[derive(Clone, Debug)]
pub(crate) enum SessionOutput {
    /// Standard output, with the time since this instant before each line.
    Lines(Instant),
    View(ViewSender),
}

/// The sender of messages to the terminal view. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ViewSender {
    pub(crate) messages: UnboundedSender<ViewMessage>,
    /// The output lines of programs. The channel is bounded, so that a program blocks while the view is behind.
    pub(crate) lines: Sender<ViewEvent>,
}

#[derive(Debug)]
pub(crate) enum ViewMessage {
    Event(ViewEvent),
    /// The operator of this name has started, with this debug page.
    Operator(String, Option<PageSource>),
}

/// The length in bytes at which an output line of a program is split.
const LONGEST: u64 = 64 << 10;

impl SessionOutput {
    pub(crate) fn say(&self, line: impl Display) {
        match self {
            Self::Lines(start) => {
                let seconds = start.elapsed().as_secs_f64();
                say(format_args!("{seconds:7.2}s  {line}"));
            }
            Self::View(_) => self.show(ViewEvent::Said(line.to_string())),
        }
    }

    /// Prints a line about something that the terminal view shows by itself.
    pub(crate) fn say_without_view(&self, line: impl Display) {
        if let Self::Lines(_) = self {
            self.say(line);
        }
    }

    pub(crate) fn complain(&self, problem: impl Display) {
        let line = format!("error: {problem}");
        match self {
            Self::Lines(_) => self.say(line),
            Self::View(_) => self.show(ViewEvent::Problem(line)),
        }
    }

    /// Sends an event other than an output line to the terminal view; without a view, does nothing.
    pub(crate) fn show(&self, event: ViewEvent) {
        self.tell(ViewMessage::Event(event));
    }

    /// Returns the standard output for a child process: inherited, or with a view a pipe for [`follow`](Self::follow).
    pub(crate) fn stdio(&self) -> Stdio {
        match self {
            Self::Lines(_) => Stdio::inherit(),
            Self::View(_) => Stdio::piped(),
        }
    }

    /// Sends the output lines of a child process to the terminal view, in the background until its pipes close.
    pub(crate) fn follow(&self, child: &mut Child, event: fn(String) -> ViewEvent) {
        let Self::View(sender) = self else {
            return;
        };
        if let Some(errors) = child.stderr.take() {
            tokio::spawn(copy_lines(errors, sender.lines.clone(), event));
        }
        if let Some(output) = child.stdout.take() {
            tokio::spawn(copy_lines(output, sender.lines.clone(), event));
        }
    }

    pub(crate) async fn copy(
        &self,
        stream: Option<impl AsyncRead + Unpin>,
        event: fn(String) -> ViewEvent,
    ) {
        if let (Self::View(sender), Some(stream)) = (self, stream) {
            copy_lines(stream, sender.lines.clone(), event).await;
        }
    }

    /// Sends an event to the terminal view, after the output lines that are queued.
    pub(crate) async fn show_after_lines(&self, event: ViewEvent) {
        if let Self::View(sender) = self {
            // A failed send means that the session is ending.
            let _ = sender.lines.send(event).await;
        }
    }

    pub(crate) fn tell(&self, message: ViewMessage) {
        if let Self::View(sender) = self {
            // A failed send means that the session is ending.
            let _ = sender.messages.send(message);
        }
    }
}

/// Sends the lines of a stream to the view. Replaces invalid UTF-8, and splits lines that are too long.
async fn copy_lines(
    stream: impl AsyncRead + Unpin,
    lines: Sender<ViewEvent>,
    event: fn(String) -> ViewEvent,
) {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut part = (&mut reader).take(LONGEST);
        match part.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        if lines.send(event(text)).await.is_err() {
            return;
        }
    }
}
