//! Words: the specification of a fault: which requests it affects, when, and how.

use serde::{Deserialize, Serialize};

use super::record::{RequestRecord, Verb};

/// A fault: which requests it affects, when, and how. Over HTTP the same fields are JSON members in camel case.
///
/// The fault affects requests that match every field that is set; an unset field matches all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
#[must_use = "a fault does nothing until it is added"]
pub struct FaultSpec {
    /// The verb that the request must have; `None` matches any request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<Verb>,
    /// The resource that the request must be for, such as `deployments.apps` or `pods/status`
    /// ([`RequestRecord::is_for`]). `None` matches any request, also for documents such as discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespace that the path must have; `None` matches any request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of an object that the path must have; `None` matches any request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user that must send the request, as in [`RequestRecord::user`]; `None` matches any user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// A text that the `User-Agent` header must contain; `None` matches any client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The fraction of matching requests that are affected, from 0 to 1. The server's seed decides which. Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Number of matching requests that are not affected at first. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u64,
    /// Maximum number of requests that are affected; `None`: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Milliseconds from the planning of the fault to its beginning. Default 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after_millis: u64,
    /// Milliseconds that the fault lasts from its beginning; `None`: until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_millis: Option<u64>,
    /// What happens to an affected request.
    pub effect: Effect,
}

/// The longest delay that an effect may have, in milliseconds: a year.
pub(crate) const LONGEST_MILLIS: u64 = 365 * 24 * 60 * 60 * 1000;

/// The effect of a fault on a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
#[non_exhaustive]
pub enum Effect {
    /// The request waits before it is carried out.
    Delay {
        /// Minimum delay in milliseconds, at most a year.
        millis: u64,
        /// Maximum of the random addition to the delay, in milliseconds, at most a year. Default 0.
        #[serde(default)]
        jitter_millis: u64,
    },
    /// The request gets a failure as its answer.
    Answer {
        /// The HTTP status code, 400 to 599.
        code: u16,
        /// The message of the answer; the default says that the failure is a fault.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
        /// Seconds of a `Retry-After` header. Default 0: no header.
        #[serde(default)]
        retry_after_seconds: u32,
        /// Whether the server carries out the request although the answer is an error.
        #[serde(default)]
        commit: bool,
    },
    /// The connection ends before the answer.
    Cut {
        /// Whether the server carries out the request although the client gets no answer.
        #[serde(default)]
        commit: bool,
    },
    /// The connection ends in the middle of the answer's body.
    CutBody {
        /// Number of bytes of the body that arrive.
        after_bytes: u64,
    },
    /// The answer's body arrives in pieces.
    Chunks {
        /// Size of a piece in bytes, at least 1.
        bytes: u64,
        /// Delay of each piece, in milliseconds.
        #[serde(default)]
        millis: u64,
    },
    /// The request is not answered until the fault is removed. To silence watches that are already
    /// open, use [`Faults::silence_watches`](super::Faults::silence_watches).
    Swallow,
    /// A watch opens, but receives neither events nor bookmarks nor its end.
    Silence,
    /// A watch opens and ends at once with an `ERROR` event of 410.
    ExpireWatch,
    /// A watch sends each event twice.
    DuplicateEvents,
    /// A watch sends each bookmark twice.
    DuplicateBookmarks,
    /// A watch sends its bookmarks late.
    LateBookmarks {
        /// The delay of each bookmark, in milliseconds.
        millis: u64,
    },
    /// A list with `resourceVersion=0`, or with a minimum version that the past state meets, is answered with a past
    /// state. A list without a version asks for the newest state and gets it.
    StaleList {
        /// Number of revisions by which the past state is older than the newest state, as far as they are retained.
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
    /// Creates a fault with this effect on every request.
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

    /// Limits the fault to requests with this verb.
    pub fn verb(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// Limits the fault to requests for this resource, written as in [`RequestRecord::is_for`].
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Limits the fault to requests with this namespace in their path.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Limits the fault to requests with this name of an object in their path.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Limits the fault to requests of the user with this name.
    pub fn user(mut self, user: &str) -> Self {
        self.user = Some(user.to_owned());
        self
    }

    /// Limits the fault to requests with this text in their `User-Agent` header.
    pub fn user_agent(mut self, part: &str) -> Self {
        self.user_agent = Some(part.to_owned());
        self
    }

    /// Limits the fault to a random fraction of the matching requests, from 0 (none) to 1 (all).
    pub fn probability(mut self, share: f64) -> Self {
        self.probability = Some(share);
        self
    }

    /// Leaves this many matching requests unaffected before the fault takes effect.
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Limits the number of requests that are affected; later ones are not.
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets the fault begin this many milliseconds after it is planned.
    pub fn after_millis(mut self, millis: u64) -> Self {
        self.after_millis = millis;
        self
    }

    /// Lets the fault end this many milliseconds after its beginning.
    pub fn for_millis(mut self, millis: u64) -> Self {
        self.for_millis = Some(millis);
        self
    }

    /// Returns why the fault is invalid, for instance a status code below 400; `None` for a valid fault.
    pub(crate) fn problem(&self) -> Option<String> {
        if let Some(share) = self.probability
            && !(0.0..=1.0).contains(&share)
        {
            return Some(format!("probability is {share}, but must be from 0 to 1"));
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
                "effect.{field} is {millis}, but must be at most {LONGEST_MILLIS}, a year"
            ));
        }
        match &self.effect {
            Effect::Answer { code, .. } if !(400..600).contains(code) => Some(format!(
                "effect.code is {code}, but must be a failure, from 400 to 599"
            )),
            Effect::Chunks { bytes: 0, .. } => {
                Some("effect.bytes is 0, but must be at least 1".to_owned())
            }
            _ => None,
        }
    }

    pub(crate) fn fits(&self, record: &RequestRecord) -> bool {
        let same =
            |wanted: &Option<String>, found: &Option<String>| wanted.is_none() || wanted == found;
        let agent = self.user_agent.as_deref().unwrap_or_default();
        let resource = self.resource.as_deref();
        self.verb.is_none_or(|verb| record.does(verb))
            && resource.is_none_or(|resource| record.is_for(resource))
            && same(&self.namespace, &record.namespace)
            && same(&self.name, &record.name)
            && self.user.as_ref().is_none_or(|user| record.user == *user)
            && record.user_agent.contains(agent)
    }
}
