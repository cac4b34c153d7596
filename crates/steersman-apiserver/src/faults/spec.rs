//! Words: a fault as it is asked for: whom it meets, when, and what it does.

use serde::{Deserialize, Serialize};

use super::record::{RequestRecord, Verb};

/// A fault: whom it meets, when, and what it does. The same in Rust and, as JSON with these names
/// in camel case, over HTTP.
///
/// A request that fits everything that is given meets it; what is not given fits all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
#[must_use = "a fault does nothing until it is added"]
pub struct FaultSpec {
    /// What the request does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The resource, as in [`RequestRecord::is_for`]. Without it requests for documents, such as
    /// discovery, fit too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespace in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name in the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Who asks, as in [`RequestRecord::user`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A part of the `User-Agent` header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// How many of the requests that fit meet it, from 0 to 1; which ones follows from the server's
    /// seed. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// How many requests that fit are spared first. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// How many requests meet it at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The milliseconds after which it begins. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_millis: u64,
    /// How many milliseconds it lasts from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_millis: Option<u64>,
    /// What it does.
    pub effect: Effect,
}

/// The longest a fault lets something wait, in milliseconds: a year. What is to last until it is
/// taken out is swallowed instead.
pub(crate) const LONGEST_MILLIS: u64 = 365 * 24 * 60 * 60 * 1000;

/// What a fault does to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum Effect {
    /// It waits before anything is done.
    Delay {
        /// The least it waits. Waits of all kinds are a year at most.
        millis: u64,
        /// How much longer it may take.
        #[serde(default)]
        jitter_millis: u64,
    },
    /// It is answered a failure.
    Answer {
        /// The HTTP status code, 400 to 599.
        code: u16,
        /// The message; one that says that it is a fault by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Seconds of a `Retry-After` header.
        #[serde(default)]
        retry_after_seconds: u32,
        /// Whether what was asked is done all the same.
        #[serde(default)]
        commit: bool,
    },
    /// Its connection ends before the answer.
    Cut {
        /// Whether what was asked is done all the same.
        #[serde(default)]
        commit: bool,
    },
    /// Its connection ends in the middle of the answer's body.
    CutBody {
        /// How much of the body comes.
        after_bytes: u64,
    },
    /// Its answer's body comes in pieces.
    Chunks {
        /// How large they are, at least 1.
        bytes: u64,
        /// How long each takes.
        #[serde(default)]
        millis: u64,
    },
    /// It is not answered until the fault is taken out. A watch that is open already falls silent
    /// by [`Faults::silence_watches`](super::Faults::silence_watches).
    Swallow,
    /// A watch opens and stays silent.
    Silence,
    /// A watch opens and ends at once with an `ERROR` event of 410.
    ExpireWatch,
    /// A watch tells each event twice.
    DuplicateEvents,
    /// A watch tells each bookmark twice.
    DuplicateBookmarks,
    /// The bookmarks of a watch come later than they should.
    LateBookmarks {
        /// By how much.
        millis: u64,
    },
    /// A list that takes any version (`resourceVersion=0`), or any that is no older than a past one, is answered from
    /// the past. A list without a version asks for the newest state, and has it.
    StaleList {
        /// By how many revisions, as far as they are remembered.
        revisions: u64,
    },
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands the field by reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl FaultSpec {
    /// This effect on every request.
    pub fn new(effect: Effect) -> Self {
        Self {
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            user: None,
            user_agent: None,
            probability: None,
            skip: 0,
            times: None,
            after_millis: 0,
            for_millis: None,
            effect,
        }
    }

    /// Only for requests that do this.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Only for this resource.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only for this object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only for this user.
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Only for clients whose `User-Agent` contains this.
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Only for this share of the requests that fit.
    pub fn probability(mut self, share: f64) -> Self {
        self.probability = Some(share);
        self
    }

    /// Spares the first ones.
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// At most so often.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// From so many milliseconds from now on.
    pub fn after_millis(mut self, millis: u64) -> Self {
        self.after_millis = millis;
        self
    }

    /// For so many milliseconds from its beginning.
    pub fn for_millis(mut self, millis: u64) -> Self {
        self.for_millis = Some(millis);
        self
    }

    /// Why the fault makes no sense, if it makes none.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(share) = self.probability
            && !(0.0..=1.0).contains(&share)
        {
            return Some(format!("probability is {share}, and must be from 0 to 1"));
        }
        let waits: &[(&str, u64)] = match &self.effect {
            Effect::Delay {
                millis,
                jitter_millis,
            } => &[("millis", *millis), ("jitterMillis", *jitter_millis)],
            Effect::Chunks { millis, .. } | Effect::LateBookmarks { millis } => {
                &[("millis", *millis)]
            }
            _ => &[],
        };
        if let Some((field, millis)) = waits.iter().find(|(_, millis)| *millis > LONGEST_MILLIS) {
            return Some(format!(
                "effect.{field} is {millis}, and must be at most {LONGEST_MILLIS}, a year"
            ));
        }
        match &self.effect {
            Effect::Answer { code, .. } if !(400..600).contains(code) => Some(format!(
                "effect.code is {code}, and must be a failure, from 400 to 599"
            )),
            Effect::Chunks { bytes: 0, .. } => {
                Some("effect.bytes is 0, and must be at least 1".to_owned())
            }
            _ => None,
        }
    }

    /// Whether a request is one of those that it may meet.
    pub(crate) fn fits(&self, record: &RequestRecord) -> bool {
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let agent = self.user_agent.as_deref().unwrap_or_default();
        self.verb.is_none_or(|verb| record.does(verb))
            && self
                .resource
                .as_deref()
                .is_none_or(|resource| record.is_for(resource))
            && same(&self.namespace, &record.namespace)
            && same(&self.name, &record.name)
            && self.user.as_ref().is_none_or(|user| record.user == *user)
            && record.user_agent.contains(agent)
    }
}
