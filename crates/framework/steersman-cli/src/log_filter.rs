//! Handle: the filter of the log, made of levels and directives in the notation of `RUST_LOG`.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber, callsite};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Filter};

/// A filter that can be replaced while it is in use. Cheap to clone; all clones are one filter.
///
/// Each reconcile has a span, so that the lock of `tracing_subscriber::reload` and those of [`EnvFilter`] cost more than
/// all else that the log does for most reconciles. This filter takes none of them unless directives name spans.
#[derive(Clone)]
pub(crate) struct LogFilter {
    present: Arc<PresentFilter>,
}

struct PresentFilter {
    /// The number of the filter in `directives`: each filter of the process has another one.
    version: AtomicU64,
    directives: Mutex<Arc<Directives>>,
}

struct Directives {
    filter: EnvFilter,
    /// Whether a directive names spans, so that the filter has to see them.
    has_spans: bool,
}

thread_local! {
    /// The filter that this thread used last, with its number.
    static USED: RefCell<Option<(u64, Arc<Directives>)>> = const { RefCell::new(None) };
}

const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

/// The directive that silences kube's log lines about errors that the framework returns to its callers.
const RETURNED: &str = "kube_client::client::builder=off";

/// The allowed log levels, as errors state them.
pub(crate) const ALLOWED: &str = "write error, warn, info, debug, trace or off, or a list of levels with targets, such as \
     info,steersman_cache=debug; a target alone is no level";

/// Returns the filter for a level or for directives; `None` for any other text. A directive for the same target
/// overrides `RETURNED`.
///
/// A single word must be the name of a level. `EnvFilter` reads other words as targets, so that `warning` would silence
/// every other line, and reads 1 as `error`, where zap reads `debug`.
pub(crate) fn log_filter(text: &str) -> Option<EnvFilter> {
    let directives = text.split(',').map(str::trim);
    let directives: Vec<&str> = directives.filter(|text| !text.is_empty()).collect();
    let are_levels = directives.iter().all(|text| is_level_or_has_target(text));
    if directives.is_empty() || !are_levels {
        return None;
    }
    EnvFilter::try_new(format!("{RETURNED},{}", directives.join(","))).ok()
}

impl LogFilter {
    pub(crate) fn new(filter: EnvFilter) -> Self {
        Self {
            present: Arc::new(PresentFilter {
                version: next_version().into(),
                directives: Mutex::new(Directives::new(filter)),
            }),
        }
    }

    pub(crate) fn replace(&self, filter: EnvFilter) {
        let replaced = {
            let mut present = self.present.directives.lock();
            // The order is that of the lock: a thread that reads the new number waits for the new filter.
            self.present
                .version
                .store(next_version(), Ordering::Release);
            std::mem::replace(&mut *present, Directives::new(filter))
        };
        drop(replaced);
        callsite::rebuild_interest_cache();
    }

    fn read<T>(&self, read: impl FnOnce(&Directives) -> T) -> T {
        let version = self.present.version.load(Ordering::Acquire);
        let directives = || Arc::clone(&self.present.directives.lock());
        // Taken out meanwhile, so that an event of the filter itself would not find it borrowed.
        let used = USED.try_with(RefCell::take).ok().flatten();
        let used = used.filter(|(known, _)| *known == version);
        let (_, present) = used.unwrap_or_else(|| (version, directives()));
        let result = read(&present);
        // The storage is gone while its thread ends.
        let _ = USED.try_with(|used| used.replace(Some((version, present))));
        result
    }

    /// Passes a change of a span on, if directives name spans.
    fn notify(&self, notify: impl FnOnce(&EnvFilter)) {
        self.read(|directives| {
            if directives.has_spans {
                notify(&directives.filter);
            }
        });
    }
}

impl Directives {
    fn new(filter: EnvFilter) -> Arc<Self> {
        // As text, a directive about spans has a bracket.
        let has_spans = filter.to_string().contains('[');
        Arc::new(Self { filter, has_spans })
    }
}

impl<S: Subscriber> Filter<S> for LogFilter {
    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.read(|present| Filter::<S>::callsite_enabled(&present.filter, metadata))
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: &Context<'_, S>) -> bool {
        self.read(|present| Filter::<S>::enabled(&present.filter, metadata, context))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        self.read(|present| present.filter.max_level_hint())
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        self.notify(|filter| filter.on_new_span(attributes, id, context));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.notify(|filter| filter.on_record(id, values, context));
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.notify(|filter| filter.on_enter(id, context));
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.notify(|filter| filter.on_exit(id, context));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.notify(|filter| filter.on_close(id, context));
    }
}

fn next_version() -> u64 {
    static VERSIONS: AtomicU64 = AtomicU64::new(1);
    // The order is relaxed, because the numbers only have to be unique.
    VERSIONS.fetch_add(1, Ordering::Relaxed)
}

fn is_level_or_has_target(directive: &str) -> bool {
    let is_level = LEVELS
        .iter()
        .any(|level| level.eq_ignore_ascii_case(directive));
    is_level || directive.contains(['=', '['])
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;
    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::{Layer, SubscriberExt as _};

    use super::*;

    /// A layer that collects the messages' targets.
    #[derive(Clone, Default)]
    struct Targets(Arc<Mutex<Vec<String>>>);

    impl Layer<Registry> for Targets {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, Registry>) {
            self.0.lock().push(event.metadata().target().to_owned());
        }
    }

    #[test]
    fn a_replaced_filter_holds_at_once_for_levels_and_for_spans() {
        let filter = LogFilter::new(log_filter("info").unwrap());
        let targets = Targets::default();
        let subscriber =
            tracing_subscriber::registry().with(targets.clone().with_filter(filter.clone()));
        let other = LogFilter::new(log_filter("off").unwrap());
        with_default(subscriber, || {
            let say = |number: u32| {
                tracing::debug!(target: "quiet", number);
                tracing::info!(target: "loud", number);
                tracing::info_span!("within")
                    .in_scope(|| tracing::debug!(target: "inside", number));
                std::mem::take(&mut *targets.0.lock())
            };
            assert_eq!(say(1), ["loud"]);
            filter.replace(log_filter("debug").unwrap());
            assert_eq!(say(2), ["quiet", "loud", "inside"]);
            filter.replace(log_filter("warn,[within]=debug").unwrap());
            assert_eq!(say(3), ["inside"]);
            // A filter of another subscriber in the same thread does not disturb.
            let quiet = tracing_subscriber::registry().with(targets.clone().with_filter(other));
            with_default(quiet, || assert_eq!(say(4), [""; 0]));
            assert_eq!(say(5), ["inside"]);
            filter.replace(log_filter("quiet=debug,off").unwrap());
            assert_eq!(say(6), ["quiet"]);
        });
    }

    #[test]
    fn a_word_alone_is_a_level_and_a_target_has_one() {
        for text in [
            "info", "WARN", " debug\n", "off", "info,steersman_cache=debug", "info, h2=warn,",
            "[span{a=1}]=debug,info",
        ] {
            assert!(log_filter(text).is_some(), "{text:?}");
        }
        for text in [
            "", " , ", "warning", "inof", "mycrate", "info,mycrate", "1", "h2=loud",
        ] {
            assert!(log_filter(text).is_none(), "{text:?}");
        }
    }
}
