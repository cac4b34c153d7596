//! Machine: makes names and texts that events.k8s.io/v1 accepts.

use steersman_object::names::is_qualified;

/// The maximal length of a note in bytes (`NoteLengthLimit` of Kubernetes).
pub(crate) const NOTE_LIMIT: usize = 1024;

/// The maximal length of the reason, the action and the reporting instance in bytes (`ReasonLengthLimit`,
/// `ActionLengthLimit` and `ReportingInstanceLengthLimit` of Kubernetes).
pub(crate) const TEXT_LIMIT: usize = 128;

/// The maximal length of an Event's name in bytes: that of a DNS subdomain.
const NAME_LIMIT: usize = 253;

/// The maximal length of the name part of a qualified name, in bytes.
const QUALIFIED_LIMIT: usize = 63;

/// Cuts a text at a character boundary, to at most `limit` bytes.
pub(crate) fn cut(text: &mut String, limit: usize) {
    text.truncate(text.floor_char_boundary(limit));
}

/// Returns the name of an Event: the name of its object, made a DNS subdomain, and a number.
///
/// Names of some kinds are no subdomains (`system:node`, or 253 bytes long): invalid characters become hyphens, and
/// long names are cut.
pub(crate) fn event_name(object: &str, number: u64) -> String {
    let suffix = format!(".{number:016x}");
    let mut base = object.to_ascii_lowercase();
    base = base.replace(|c: char| !is_subdomain_char(c), "-");
    cut(&mut base, NAME_LIMIT - suffix.len());
    let labels = base.split('.').map(|label| label.trim_matches('-'));
    let labels: Vec<&str> = labels.filter(|label| !label.is_empty()).collect();
    match labels.join(".") {
        base if base.is_empty() => format!("event{suffix}"),
        base => base + &suffix,
    }
}

fn is_subdomain_char(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.')
}

/// Returns a valid `reportingController` for the name of a recorder: a qualified name, such as `website` or
/// `example.com/website` (`validation.IsQualifiedName` of Kubernetes).
pub(crate) fn reporting_controller(name: &str) -> String {
    if name.contains('/') && is_qualified(name) {
        return name.to_owned();
    }
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut kept = name.replace(|c: char| !is_kept(c), "-");
    let outer = |c: char| !c.is_ascii_alphanumeric();
    kept = kept.trim_start_matches(outer).to_owned();
    cut(&mut kept, QUALIFIED_LIMIT);
    match kept.trim_end_matches(outer) {
        "" => "operator".to_owned(),
        kept => kept.to_owned(),
    }
}

pub(crate) fn reporting_instance(name: &str, host: &str) -> String {
    let mut instance = match host {
        "" => name.to_owned(),
        host => format!("{name}-{host}"),
    };
    cut(&mut instance, TEXT_LIMIT);
    match instance {
        instance if instance.is_empty() => "operator".to_owned(),
        instance => instance,
    }
}

#[cfg(test)]
mod tests {
    use steersman_object::names::is_subdomain;

    use super::*;

    /// EVENT-7: the server accepts every Event, whatever the names and texts are.
    #[test]
    fn the_name_of_an_event_is_a_subdomain_whatever_the_object_is_called() {
        let long = "a".repeat(253);
        let cases = [
            ("shop", "shop.000000000000002a"),
            ("a.b-c", "a.b-c.000000000000002a"),
            ("system:Node", "system-node.000000000000002a"),
            ("..x..", "x.000000000000002a"),
            ("ünï", "n.000000000000002a"),
            ("", "event.000000000000002a"),
            ("::", "event.000000000000002a"),
        ];
        for (object, expected) in cases {
            assert_eq!(event_name(object, 42), expected, "{object}");
            assert!(is_subdomain(&event_name(object, 42)), "{object}");
        }
        let name = event_name(&long, 42);
        assert!(name.len() == 253 && is_subdomain(&name), "{name}");
        // The cut would leave a hyphen at the end, which a subdomain cannot have.
        let name = event_name(&format!("{}--{long}", "a".repeat(234)), 42);
        assert!(name.len() <= 253 && is_subdomain(&name), "{name}");
    }

    /// EVENT-7: the server accepts every Event, whatever the names and texts are.
    #[test]
    fn a_reporting_controller_is_a_qualified_name_whatever_the_recorder_is_called() {
        let long = "c".repeat(100);
        let cases = [
            ("website", "website"),
            ("example.com/website", "example.com/website"),
            ("my controller", "my-controller"),
            ("-_x_-", "x"),
            ("a/b/c", "a-b-c"),
            ("Upper.Case/x", "Upper.Case-x"),
            ("", "operator"),
            ("äö", "operator"),
            (&long, &long[..63]),
        ];
        for (name, expected) in cases {
            assert_eq!(reporting_controller(name), expected);
        }
    }

    /// EVENT-7: the server accepts every Event, whatever the names and texts are.
    #[test]
    fn texts_are_cut_at_a_character() {
        let mut note = "ü".repeat(600);
        cut(&mut note, NOTE_LIMIT);
        assert_eq!(note, "ü".repeat(512));
        let mut note = format!("x{}", "ü".repeat(600));
        cut(&mut note, NOTE_LIMIT);
        assert_eq!(note.len(), 1023);
        assert_eq!(reporting_instance("site", "pod-1"), "site-pod-1");
        assert_eq!(reporting_instance("site", ""), "site");
        assert_eq!(reporting_instance("", ""), "operator");
        assert_eq!(reporting_instance("site", &"h".repeat(200)).len(), 128);
    }
}
