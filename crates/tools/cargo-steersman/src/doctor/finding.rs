//! Words: the findings of a check, and facts that could not be read.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    pub(crate) level: FindingLevel,
    /// The checked subject and its state, on one line.
    pub(crate) text: String,
    /// How to solve the problem, one line per text.
    pub(crate) advice: Vec<String>,
}

/// How serious a finding is for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, derive_more::Display)]
pub(crate) enum FindingLevel {
    /// The operator has what it needs.
    #[display("ok")]
    Good,
    /// The operator lacks something.
    #[display("problem")]
    Problem,
    /// The state could not be checked.
    #[display("unknown")]
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) subject: &'static str,
    pub(crate) findings: Findings,
}

/// The findings of a check, in the order in which the check made them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<DoctorFinding>);

/// A fact about the cluster, or the reason that it could not be read.
pub(crate) type SeenFact<T> = Result<T, Unseen>;

/// An object in the cluster; `None` if the object does not exist.
pub(crate) type SeenObject = SeenFact<Option<Value>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// The error, with the request that failed.
    pub(crate) problem: String,
    pub(crate) cause: UnseenCause,
}

/// The cause of a failed request, as far as the advice depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnseenCause {
    /// The server does not know the credentials (401).
    Unauthorized,
    /// The user may not send the request (403).
    Forbidden,
    /// The server cannot be reached, or does not respond in time.
    Unanswered,
    Other,
}

impl DoctorFinding {
    pub(crate) fn good(text: impl Into<String>) -> Self {
        Self {
            level: FindingLevel::Good,
            text: text.into(),
            advice: Vec::new(),
        }
    }

    pub(crate) fn problem(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: FindingLevel::Problem,
            text: text.into(),
            advice: vec![advice.into()],
        }
    }

    pub(crate) fn unknown(text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: FindingLevel::Unknown,
            ..Self::problem(text, advice)
        }
    }

    pub(crate) fn advise(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }

    pub(crate) fn detail(mut self, lines: impl IntoIterator<Item = String>) -> Self {
        self.advice.splice(0..0, lines);
        self
    }
}

impl Findings {
    pub(crate) fn good(&mut self, text: impl Into<String>) {
        self.0.push(DoctorFinding::good(text));
    }

    pub(crate) fn problem(&mut self, text: impl Into<String>, advice: impl Into<String>) {
        self.0.push(DoctorFinding::problem(text, advice));
    }

    /// Returns a fact. If the fact could not be read, adds a finding about `subject` and returns `None`.
    pub(crate) fn known<'a, T>(&mut self, seen: &'a SeenFact<T>, subject: &str) -> Option<&'a T> {
        let unseen = |unseen: &Unseen| self.0.push(unseen.finding(subject));
        seen.as_ref().map_err(unseen).ok()
    }

    /// Returns an object. If it is missing or could not be read, adds a finding and returns `None`.
    pub(crate) fn present<'a, T>(
        &mut self,
        seen: &'a SeenFact<Option<T>>,
        name: &str,
        advice: &str,
    ) -> Option<&'a T> {
        let object = self.known(seen, name)?.as_ref();
        if object.is_none() {
            self.problem(format!("{name} is missing"), advice);
        }
        object
    }
}

impl Unseen {
    /// Returns the finding that `subject` could not be checked.
    pub(crate) fn finding(&self, subject: &str) -> DoctorFinding {
        let advice = match self.cause {
            UnseenCause::Forbidden => {
                "choose with --context a user that may send this request, or grant it to this one"
            }
            UnseenCause::Unauthorized => "renew the credentials in the kubeconfig",
            UnseenCause::Unanswered => "run `cargo steersman doctor` again when the server answers",
            UnseenCause::Other => "the server says why; see its log",
        };
        let text = format!("{subject} cannot be checked: {}", self.problem);
        DoctorFinding::unknown(text, advice)
    }

    #[cfg(test)]
    pub(crate) fn forbidden(problem: &str) -> Self {
        Self {
            problem: problem.to_owned(),
            cause: UnseenCause::Forbidden,
        }
    }
}
