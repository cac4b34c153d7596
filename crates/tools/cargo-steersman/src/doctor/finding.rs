//! Words: what a check found, and facts that could not be read.

use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorFinding {
    pub(crate) level: FindingLevel,
    /// The subject and its state, on one line.
    pub(crate) text: String,
    /// What to do about it, a text per line.
    pub(crate) advice: Vec<String>,
}

/// What a finding means for the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FindingLevel {
    /// The operator has what it needs.
    Good,
    /// The operator lacks something.
    Problem,
    /// The state could not be checked.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) subject: &'static str,
    pub(crate) findings: Findings,
}

/// The findings of a check, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<DoctorFinding>);

/// A fact of the cluster, or why it could not be read.
pub(crate) type SeenFact<T> = Result<T, Unseen>;

/// An object of the cluster; `None` if it does not exist.
pub(crate) type SeenObject = SeenFact<Option<Value>>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// The problem, with the request.
    pub(crate) problem: String,
    pub(crate) cause: UnseenCause,
}

/// The cause of a failed request, as far as it changes the advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnseenCause {
    /// The server does not know the credentials (401).
    Unauthorized,
    /// The user may not send the request (403).
    Forbidden,
    /// The server cannot be reached, or takes too long.
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

    /// Returns a fact, or adds that it cannot be checked.
    pub(crate) fn known<'a, T>(&mut self, seen: &'a SeenFact<T>, subject: &str) -> Option<&'a T> {
        let unseen = |unseen: &Unseen| self.0.push(unseen.finding(subject));
        seen.as_ref().map_err(unseen).ok()
    }

    /// Returns an object, or adds that it is missing or cannot be checked.
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
    /// Makes the finding that something cannot be checked.
    pub(crate) fn finding(&self, subject: &str) -> DoctorFinding {
        let advice = match self.cause {
            UnseenCause::Forbidden => {
                "choose with --context a user that may send this request, or grant it to this one"
            }
            UnseenCause::Unauthorized => "renew the credentials in the kubeconfig",
            UnseenCause::Unanswered => "run `cargo steersman doctor` again when the server answers",
            UnseenCause::Other => "the server says why; see its log",
        };
        DoctorFinding::unknown(
            format!("{subject} cannot be checked: {}", self.problem),
            advice,
        )
    }

    #[cfg(test)]
    pub(crate) fn forbidden(problem: &str) -> Self {
        Self {
            problem: problem.to_owned(),
            cause: UnseenCause::Forbidden,
        }
    }
}
