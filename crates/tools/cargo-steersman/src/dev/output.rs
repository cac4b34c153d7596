//! Driver: where a session and its programs write: to standard output and standard error, or into the view.

use std::fmt::Display;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Child;
use tokio::sync::mpsc::{Sender, UnboundedSender};

use super::endpoint::OperatorEndpoint;
use super::view::model::ViewEvent;
use crate::screen::Screen;

#[derive(Clone, Debug)]
pub(crate) enum SessionOutput {
    Lines(Screen),
    View(ViewSender),
}

/// The way into the view. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ViewSender {
    pub(crate) messages: UnboundedSender<ViewMessage>,
    /// The lines of programs; bounded, so that a program waits while the view is behind.
    pub(crate) lines: Sender<ViewEvent>,
}

#[derive(Debug)]
pub(crate) enum ViewMessage {
    Event(ViewEvent),
    /// An operator of this name has started, with its diagnostics.
    Operator(String, Option<OperatorEndpoint>),
}

/// The longest line of a program in bytes.
const LONGEST: u64 = 64 << 10;

impl SessionOutput {
    pub(crate) fn say(&self, line: impl Display) {
        match self {
            Self::Lines(screen) => screen.say(line),
            Self::View(_) => self.show(ViewEvent::Said(line.to_string())),
        }
    }

    pub(crate) fn complain(&self, problem: impl Display) {
        match self {
            Self::Lines(screen) => screen.say(format_args!("error: {problem}")),
            Self::View(_) => self.show(ViewEvent::Problem(format!("error: {problem}"))),
        }
    }

    /// Tells the view something that lines do not show.
    pub(crate) fn show(&self, event: ViewEvent) {
        self.tell(ViewMessage::Event(event));
    }

    pub(crate) fn show_operator(&self, name: &str, endpoint: Option<OperatorEndpoint>) {
        self.tell(ViewMessage::Operator(name.to_owned(), endpoint));
    }

    /// Returns where a program of the session writes: where this program does, or into a pipe for
    /// [`follow`](Self::follow).
    pub(crate) fn stdio(&self) -> Stdio {
        match self {
            Self::Lines(_) => Stdio::inherit(),
            Self::View(_) => Stdio::piped(),
        }
    }

    /// Shows the lines that a program writes into its pipes, in the background until it closes them.
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

    /// Tells the view something that comes after the lines so far.
    pub(crate) async fn show_after_lines(&self, event: ViewEvent) {
        if let Self::View(sender) = self {
            // Without a receiver the session is about to end.
            let _ = sender.lines.send(event).await;
        }
    }

    fn tell(&self, message: ViewMessage) {
        if let Self::View(sender) = self {
            // Without a receiver the session is about to end.
            let _ = sender.messages.send(message);
        }
    }
}

/// Sends the lines of a stream. What is no UTF-8 is replaced, and a longer line is cut into several.
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
