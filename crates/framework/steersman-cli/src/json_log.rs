//! Driver: writes events, panics and the final error of the process as JSON lines.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::Cell;
use std::io::Write as _;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::sync::LazyLock;

use jiff::Timestamp;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::json_line::{LineFields, LineHead, LineSpan, line};

thread_local! {
    /// The number of log lines written by this thread.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
}

/// The target of log lines about panics.
const PANIC: &str = "panic";
/// The target of the program's own messages and final error. The `logger` of these lines is the program's name.
const PROGRAM: &str = "program";

/// A tracing layer that writes each event as one JSON line.
pub(crate) struct JsonLog<W> {
    writer: W,
}

impl<W> JsonLog<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self { writer }
    }
}

impl<S, W> Layer<S> for JsonLog<W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = LineFields::of_span();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        // Values are formatted before the extensions are locked: a panic in `Debug` logs a line that reads these.
        let mut later = LineFields::default();
        values.record(&mut later);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<LineFields>()
        {
            fields.update(&later);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        let spans: Vec<_> = context.event_scope(event).into_iter().flatten().collect();
        let extensions: Vec<_> = spans.iter().map(|span| span.extensions()).collect();
        let spans = spans.iter().zip(&extensions);
        let spans = spans.filter_map(|(span, extensions)| {
            let fields = extensions.get::<LineFields>()?;
            let name = span.name();
            Some(LineSpan { name, fields })
        });
        let metadata = event.metadata();
        let head = head(*metadata.level(), metadata.target());
        let line = line(&head, &spans.collect::<Vec<_>>(), &fields);
        // A single write keeps the lines of several threads apart. A closed pipe does not end the process.
        let _ = self.writer.make_writer().write_all(line.as_bytes());
        // The counter is gone while its thread ends.
        let _ = WRITTEN.try_with(|written| written.set(written.get() + 1));
    }
}

/// Installs a panic hook that writes each panic as a log line instead of text.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(log_panic));
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let text = panic.payload_as_str().unwrap_or("(the panic has no text)");
    let location = panic.location().map(ToString::to_string);
    let thread = std::thread::current();
    let backtrace = Backtrace::capture();
    let has_backtrace = backtrace.status() == BacktraceStatus::Captured;
    let stacktrace = has_backtrace.then(|| backtrace.to_string());
    let mut pairs = vec![("panic", text)];
    pairs.extend(location.as_deref().map(|location| ("location", location)));
    pairs.extend(thread.name().map(|name| ("thread", name)));
    pairs.extend(stacktrace.as_deref().map(|trace| ("stacktrace", trace)));
    let say = || {
        tracing::error!(
            target: PANIC,
            panic = text,
            location,
            thread = thread.name(),
            stacktrace,
            "a thread panicked"
        );
    };
    say_or_write(say, PANIC, "a thread panicked", &pairs);
}

/// Returns the line for a message of the program, with a line feed.
pub(crate) fn text_line(text: &str) -> String {
    line(&head(Level::INFO, PROGRAM), &[], &LineFields::of(text, &[]))
}

/// Writes the error that ends the process.
pub(crate) fn log_last_error(error: &str) {
    let say = || tracing::error!(target: PROGRAM, error, "the program ends with an error");
    let message = "the program ends with an error";
    say_or_write(say, PROGRAM, message, &[("error", error)]);
}

/// LOG-2: logs an event with the fields of its spans. If no line was written, because no log is set up or a filter
/// drops the event, writes a line to standard error directly.
fn say_or_write(say: impl FnOnce(), target: &str, message: &str, fields: &[(&'static str, &str)]) {
    let written = || WRITTEN.try_with(Cell::get).ok();
    let before = written();
    say();
    if before.is_some() && written() != before {
        return;
    }
    let line = line(
        &head(Level::ERROR, target),
        &[],
        &LineFields::of(message, fields),
    );
    // A failed write is ignored, because no other output exists.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns the file name of the program without its extension.
pub(crate) fn program() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let program = std::env::args_os().next();
        let program = program.as_deref().map(Path::new).and_then(Path::file_stem);
        let name = program.unwrap_or(PROGRAM.as_ref());
        name.to_string_lossy().into_owned()
    });
    &NAME
}

fn head(level: Level, target: &str) -> LineHead<'_> {
    let target = if target == PROGRAM { program() } else { target };
    LineHead {
        level: match level {
            Level::ERROR => "error",
            Level::WARN => "warn",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        },
        time: format!("{:.6}", Timestamp::now()),
        target,
    }
}
