//! Machine: lists the planned faults, and reads the forms that plan and remove them.

use serde::Serialize;

use super::form::Form;
use crate::faults::{Answer, Effect, FaultSpec, PlannedFault, Verb, WatchMode};

/// The planned faults.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FaultsView {
    pub(crate) planned: Vec<PlannedFault>,
    pub(crate) open_watches: usize,
}

/// A fault that is planned with one click: its title, and the fields of the form.
#[derive(Debug)]
pub(crate) struct FaultPreset {
    pub(crate) title: &'static str,
    pub(crate) fields: &'static [(&'static str, &'static str)],
}

/// The faults that tests of operators need most.
pub(crate) const PRESETS: [FaultPreset; 6] = [
    FaultPreset {
        title: "Conflict (409) for the next 3 updates",
        fields: &[
            ("effect", "answer"),
            ("code", "409"),
            ("verb", "update"),
            ("times", "3"),
        ],
    },
    FaultPreset {
        title: "Too busy (429, retry after 1 s) for 10 requests",
        fields: &[
            ("effect", "answer"),
            ("code", "429"),
            ("retryAfter", "1"),
            ("times", "10"),
        ],
    },
    FaultPreset {
        title: "Unavailable (503) until removed",
        fields: &[("effect", "answer"), ("code", "503")],
    },
    FaultPreset {
        title: "Lose the answer of the next create",
        fields: &[("effect", "lose"), ("verb", "create"), ("times", "1")],
    },
    FaultPreset {
        title: "Delay every request by 1 s",
        fields: &[("effect", "delay"), ("millis", "1000")],
    },
    FaultPreset {
        title: "Answer nothing until removed",
        fields: &[("effect", "swallow")],
    },
];

/// The effects of the form: value and text.
pub(crate) const EFFECTS: [(&str, &str); 9] = [
    ("answer", "answer with a failure"),
    ("lose", "carry out, and lose the answer"),
    ("cut", "cut the connection before the request"),
    ("delay", "delay"),
    ("swallow", "do not answer until removed"),
    ("expireWatch", "expire a new watch (410)"),
    ("silence", "silence a new watch"),
    ("duplicateEvents", "send each event of a watch twice"),
    ("staleList", "answer a list with an old state"),
];

/// What a click does to open watches and to the server: value and text.
pub(crate) const WATCH_ACTS: [(&str, &str); 7] = [
    ("cut", "End"),
    ("expire", "Expire (410)"),
    ("break", "Break in mid-stream"),
    ("silence", "Silence"),
    ("resume", "Let silenced ones go on"),
    ("compact", "Forget the history"),
    ("restart", "Restart the server"),
];

/// What a click does at once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ServerAct {
    /// Switches the open watches of a resource; `*` for all.
    Watches { mode: WatchMode, resource: String },
    /// Compacts the history, so that watches from an earlier revision get 410.
    Compact,
    /// Simulates a restart that keeps the history.
    Restart,
}

/// Reads the form of a fault.
///
/// # Errors
/// The sentence that the page shows.
pub(crate) fn spec(form: &Form) -> Result<FaultSpec, String> {
    let effect = effect(form)?;
    let mut spec = FaultSpec::new(effect);
    spec.verb = form.get("verb").map(verb).transpose()?;
    if spec.verb.is_none() {
        spec.verb = usual_verb(&spec.effect);
    }
    spec.resource = form.get("resource").map(str::to_owned);
    spec.namespace = form.get("namespace").map(str::to_owned);
    spec.name = form.get("name").map(str::to_owned);
    spec.user_agent = form.get("client").map(str::to_owned);
    spec.times = number(form, "times")?;
    spec.skip = number(form, "skip")?.unwrap_or(0);
    if let Some(percent) = number::<u32>(form, "percent")? {
        spec.probability = Some(f64::from(percent) / 100.0);
    }
    spec.problem().map_or(Ok(spec), Err)
}

/// Reads the form of an act on open watches or on the server.
///
/// # Errors
/// The sentence that the page shows.
pub(crate) fn act(form: &Form) -> Result<ServerAct, String> {
    let resource = form.get("resource").unwrap_or("*").to_owned();
    let mode = match form.get("do").unwrap_or_default() {
        "cut" => WatchMode::Cut,
        "expire" => WatchMode::Expired,
        "break" => WatchMode::Broken,
        "silence" => WatchMode::Silent,
        "resume" => WatchMode::Live,
        "compact" => return Ok(ServerAct::Compact),
        "restart" => return Ok(ServerAct::Restart),
        other => {
            return Err(format!(
                "there is no act \"{other}\"; choose a button of the page"
            ));
        }
    };
    Ok(ServerAct::Watches { mode, resource })
}

/// Returns what a fault does, as a part of a sentence.
pub(crate) fn describe(effect: &Effect) -> String {
    let done = |commit: bool| {
        if commit {
            ", after the request was carried out"
        } else {
            ""
        }
    };
    match effect {
        Effect::Delay {
            millis,
            jitter_millis: 0,
        } => format!("delay {millis} ms"),
        Effect::Delay {
            millis,
            jitter_millis,
        } => {
            format!(
                "delay {millis} to {} ms",
                millis.saturating_add(*jitter_millis)
            )
        }
        Effect::Answer {
            code,
            retry_after_seconds,
            commit,
            ..
        } => {
            let retry = match retry_after_seconds {
                0 => String::new(),
                seconds => format!(", retry after {seconds} s"),
            };
            format!("answer {code}{retry}{}", done(*commit))
        }
        Effect::Cut { commit } => format!("cut the connection{}", done(*commit)),
        Effect::CutBody { after_bytes } => format!("cut the answer after {after_bytes} bytes"),
        Effect::Chunks { bytes, millis } => {
            format!("pieces of {bytes} bytes, each after {millis} ms")
        }
        Effect::Swallow => "no answer until removed".to_owned(),
        Effect::Silence => "a silent watch".to_owned(),
        Effect::ExpireWatch => "an expired watch (410)".to_owned(),
        Effect::DuplicateEvents => "each event twice".to_owned(),
        Effect::DuplicateBookmarks => "each bookmark twice".to_owned(),
        Effect::LateBookmarks { millis } => format!("bookmarks {millis} ms late"),
        Effect::StaleList { revisions } => format!("a list that is {revisions} revisions old"),
    }
}

/// Returns which requests a fault affects, as a part of a sentence.
pub(crate) fn describe_condition(fault: &PlannedFault) -> String {
    let spec = &fault.spec;
    let verb = spec.verb.map_or("every request", Verb::as_str);
    let mut words = vec![verb.to_owned()];
    let optional = [
        ("of", &spec.resource),
        ("in", &spec.namespace),
        ("named", &spec.name),
        ("by user", &spec.user),
        ("by client", &spec.user_agent),
    ];
    for (word, value) in optional {
        words.extend(value.as_ref().map(|value| format!("{word} {value}")));
    }
    words.extend(
        spec.probability
            .map(|share| format!("with probability {share}")),
    );
    if spec.skip > 0 {
        words.push(format!("after the first {}", spec.skip));
    }
    words.extend(spec.times.map(|times| format!("at most {times} times")));
    if spec.after_millis > 0 {
        words.push(format!("from {} ms on", spec.after_millis));
    }
    words.extend(spec.for_millis.map(|millis| format!("for {millis} ms")));
    if fault.has_condition {
        words.push("under a condition in Rust".to_owned());
    }
    words.join(" ")
}

fn effect(form: &Form) -> Result<Effect, String> {
    Ok(match form.get("effect").unwrap_or("answer") {
        "answer" => {
            let code = number::<u16>(form, "code")?.unwrap_or(503);
            let answer = Answer::code(code);
            let answer = match number(form, "retryAfter")? {
                Some(seconds) => answer.retry_after(seconds),
                None => answer,
            };
            answer.into()
        }
        "lose" => Effect::Cut { commit: true },
        "cut" => Effect::Cut { commit: false },
        "delay" => Effect::Delay {
            millis: number(form, "millis")?.unwrap_or(1_000),
            jitter_millis: 0,
        },
        "swallow" => Effect::Swallow,
        "expireWatch" => Effect::ExpireWatch,
        "silence" => Effect::Silence,
        "duplicateEvents" => Effect::DuplicateEvents,
        "staleList" => Effect::StaleList {
            revisions: number(form, "revisions")?.unwrap_or(10),
        },
        other => {
            return Err(format!(
                "there is no effect \"{other}\"; choose one of the list"
            ));
        }
    })
}

/// Returns the verb of an effect that only one verb has, so that the list of faults and the hits say the truth.
fn usual_verb(effect: &Effect) -> Option<Verb> {
    match effect {
        Effect::ExpireWatch | Effect::Silence | Effect::DuplicateEvents => Some(Verb::Watch),
        Effect::StaleList { .. } => Some(Verb::List),
        _ => None,
    }
}

fn verb(text: &str) -> Result<Verb, String> {
    let verb = serde_json::from_value(text.into());
    verb.map_err(|_| format!("there is no verb \"{text}\"; choose one of the list"))
}

fn number<N: std::str::FromStr>(form: &Form, name: &str) -> Result<Option<N>, String> {
    let parse = |text: &str| {
        let wrong = |_| {
            format!("{name} is \"{text}\", but must be a whole number from 0 on, and not too large")
        };
        text.parse().map_err(wrong)
    };
    form.get(name).map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<FaultSpec, String> {
        spec(&Form::of_query(Some(text)))
    }

    #[test]
    fn a_form_becomes_a_fault() {
        let planned = read(
            "effect=answer&code=409&verb=update&resource=deployments.apps/status&client=my-operator&times=3&percent=50",
        );
        let expected = FaultSpec::from(Answer::code(409).times(3))
            .verb(Verb::Update)
            .resource("deployments.apps/status")
            .user_agent("my-operator")
            .probability(0.5);
        assert_eq!(planned, Ok(expected));
        assert_eq!(read("effect=silence").unwrap().verb, Some(Verb::Watch));
    }

    #[test]
    fn each_preset_and_each_effect_of_the_form_is_valid() {
        for preset in &PRESETS {
            let pairs = preset
                .fields
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            let pairs: Vec<String> = pairs.collect();
            assert!(read(&pairs.join("&")).is_ok(), "{}", preset.title);
        }
        for (effect, _) in EFFECTS {
            let spec = read(&format!("effect={effect}")).unwrap();
            assert!(!describe(&spec.effect).is_empty());
        }
        for (name, _) in WATCH_ACTS {
            act(&Form::of_query(Some(&format!("do={name}")))).unwrap();
        }
    }

    #[test]
    fn a_wrong_field_is_named() {
        for (form, said) in [
            ("effect=explode", "there is no effect \"explode\""),
            ("verb=jump", "there is no verb \"jump\""),
            ("times=-1", "times is \"-1\""),
            ("code=200", "effect.code is 200"),
            ("percent=200", "probability is 2"),
        ] {
            let problem = read(form).unwrap_err();
            assert!(problem.contains(said), "{problem}");
        }
        assert!(act(&Form::default()).is_err());
    }
}
