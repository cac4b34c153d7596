//! Words: parses log levels and directives for targets, in the notation of `RUST_LOG`.

use tracing_subscriber::EnvFilter;

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

fn is_level_or_has_target(directive: &str) -> bool {
    let is_level = LEVELS
        .iter()
        .any(|level| level.eq_ignore_ascii_case(directive));
    is_level || directive.contains(['=', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

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
