//! Driver: sets up the log of the process, and changes its level at run time.

use std::error::Error as StdError;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;

use parking_lot::Mutex;
use steersman_object::report;
use tracing_subscriber::layer::{Layer, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Registry, fmt as log};

use crate::error::Error;
use crate::flags::LogFormat;
use crate::json_log::{JsonLog, log_last_error, log_panics};
use crate::log_filter::{ALLOWED, LogFilter, log_filter};
use crate::trace_export::TraceExport;

/// The log level, which can be changed at run time. Cheap to clone; clones share the level.
///
/// Made by [`OperatorArgs::init_logging`](crate::OperatorArgs::init_logging), or by [`LogLevel::layer`] for a
/// program with a subscriber of its own.
///
/// ```
/// use steersman_cli::{LogFormat, LogLevel};
/// use tracing_subscriber::layer::SubscriberExt as _;
///
/// let (level, layer) = LogLevel::layer("info", LogFormat::Json).unwrap();
/// let subscriber = tracing_subscriber::registry().with(layer);
/// level.set("info,steersman_cache=debug").unwrap();
/// assert_eq!(level.get(), "info,steersman_cache=debug");
/// assert!(level.set("steersman=loud").is_err());
/// # let _ = subscriber;
/// ```
#[derive(Clone, derive_more::Debug)]
#[debug("LogLevel({:?})", self.get())]
pub struct LogLevel {
    filter: LogFilter,
    text: Arc<Mutex<String>>,
}

/// The error of a text that is neither a log level nor a list of log directives.
#[derive(Debug, thiserror::Error)]
#[error("{level:?} is not a log level: {ALLOWED}")]
pub struct InvalidLogLevel {
    level: String,
}

impl LogLevel {
    /// Makes the layer that writes log lines to standard error, and the handle for its level.
    ///
    /// # Errors
    ///
    /// [`InvalidLogLevel`].
    pub fn layer(
        level: &str,
        format: LogFormat,
    ) -> Result<(Self, impl Layer<Registry> + Send + Sync + 'static), InvalidLogLevel> {
        let filter = LogFilter::new(filter(level)?);
        let lines = match format {
            LogFormat::Human => log::layer()
                .with_ansi(std::io::stderr().is_terminal())
                .with_writer(std::io::stderr)
                .boxed(),
            LogFormat::Json => JsonLog::new(std::io::stderr).boxed(),
        };
        let level = Self {
            filter: filter.clone(),
            text: Arc::new(Mutex::new(level.trim().to_owned())),
        };
        Ok((level, lines.with_filter(filter)))
    }

    /// Returns the level or the directives in effect.
    pub fn get(&self) -> String {
        self.text.lock().clone()
    }

    /// Changes the level or the directives for all later lines.
    ///
    /// # Errors
    ///
    /// [`InvalidLogLevel`]; the level stays as it was.
    pub fn set(&self, level: &str) -> Result<(), InvalidLogLevel> {
        let filter = filter(level)?;
        let mut text = self.text.lock();
        self.filter.replace(filter);
        level.trim().clone_into(&mut text);
        Ok(())
    }

    /// Sets the subscriber of the process, with the layer of an export of traces if there is one.
    pub(crate) fn init(
        level: &str,
        format: LogFormat,
        traces: Option<&dyn TraceExport>,
    ) -> Result<Self, Error> {
        let (level, layer) =
            Self::layer(level, format).map_err(|error| Error::Logging(Box::new(error)))?;
        let registry = tracing_subscriber::registry();
        let set = match traces {
            None => registry.with(layer).try_init(),
            Some(traces) => registry
                .with(vec![traces.layer(), layer.boxed()])
                .try_init(),
        };
        set.map_err(|error| Error::Logging(Box::new(error)))?;
        if format == LogFormat::Json {
            log_panics();
        }
        Ok(level)
    }
}

/// Writes the error that ends the process, with its causes, to standard error.
pub(crate) fn write_last_error(error: &(dyn StdError + 'static), format: LogFormat) {
    let error = report(error);
    match format {
        LogFormat::Json => log_last_error(&error.to_string()),
        LogFormat::Human => {
            // A failed write is ignored, because no other output exists.
            let _ = writeln!(std::io::stderr(), "error: {error}");
        }
    }
}

fn filter(level: &str) -> Result<EnvFilter, InvalidLogLevel> {
    log_filter(level).ok_or_else(|| InvalidLogLevel {
        level: level.to_owned(),
    })
}
