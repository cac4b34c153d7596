//! Words: the perturbations of a world, and their names.

use std::fmt;
use std::str::FromStr;

/// A kind of perturbation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PerturbationKind {
    /// The operator is killed when it sends a write, which is not carried out.
    CrashBeforeWrite,
    /// The operator is killed after a write was carried out; the answer never arrives.
    CrashAfterWrite,
    /// A write is carried out, and answered 504.
    LostAnswer,
    /// A write is not carried out, and answered with an error code.
    Refuse,
    /// The operator is killed after a read was carried out; the answer never arrives.
    CrashAfterRead,
    /// The operator is killed after a write was carried out, and its next process first sees an older state.
    StaleRestart,
    /// After a write, watches of the written resource deliver nothing until the operator has written again.
    LateWatch,
    /// The written object is deleted, and created again if the user created it, within a gap of all watches.
    Missed,
    /// All watches end with a 410 after a write, so that the operator lists again.
    ExpiredWatch,
    /// The operator is paused with a write in hand until another process has taken over; then the write arrives.
    TwoLeaders,
    /// The server restarts after a write and loses its history: watches end, and no earlier version can be resumed.
    ServerRestart,
    /// A third of the first requests of the operator are answered 429.
    Throttled,
    /// The webhooks of the operator do not answer until the operator is quiet for the first time.
    NoWebhook,
    /// A user undoes a write: deletes the object that it created, or restores the object as it was before.
    Interfere,
    /// A user deletes the namespace of a written object.
    NamespaceDeleted,
    /// The operator is restarted when all is settled; it must write nothing.
    SettledRestart,
    /// A user changes one field of a custom resource, as its schema allows, and changes it back.
    DesiredState,
}

/// A perturbation of one world. Its name, such as `refuse@3:409`, parses again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Perturbation {
    /// The kind, which says what happens.
    pub kind: PerturbationKind,
    /// The number of the write or read of the reference at which the perturbation happens, or the number of the changed
    /// field, from 1; 0 for a perturbation of the whole world.
    pub at: usize,
    /// The code of [`PerturbationKind::Refuse`], or by how many revisions the state of
    /// [`PerturbationKind::StaleRestart`] is older; otherwise 0.
    pub detail: u64,
}

/// The reason why a text is not the name of a perturbation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no perturbation: {why}")]
pub struct ParsePerturbationError {
    text: String,
    why: String,
}

/// Each kind with its name and the form of its point.
const KINDS: [(PerturbationKind, &str, PointForm); 17] = [
    (
        PerturbationKind::CrashBeforeWrite,
        "crash-before-write",
        PointForm::Number,
    ),
    (
        PerturbationKind::CrashAfterWrite,
        "crash-after-write",
        PointForm::Number,
    ),
    (
        PerturbationKind::LostAnswer,
        "lost-answer",
        PointForm::Number,
    ),
    (
        PerturbationKind::Refuse,
        "refuse",
        PointForm::NumberAndDetail("CODE"),
    ),
    (
        PerturbationKind::CrashAfterRead,
        "crash-after-read",
        PointForm::Number,
    ),
    (
        PerturbationKind::StaleRestart,
        "stale-restart",
        PointForm::NumberAndDetail("REVISIONS"),
    ),
    (PerturbationKind::LateWatch, "late-watch", PointForm::Number),
    (PerturbationKind::Missed, "missed", PointForm::Number),
    (
        PerturbationKind::ExpiredWatch,
        "expired-watch",
        PointForm::Number,
    ),
    (
        PerturbationKind::TwoLeaders,
        "two-leaders",
        PointForm::Number,
    ),
    (
        PerturbationKind::ServerRestart,
        "server-restart",
        PointForm::Number,
    ),
    (PerturbationKind::Throttled, "throttled", PointForm::World),
    (PerturbationKind::NoWebhook, "no-webhook", PointForm::World),
    (PerturbationKind::Interfere, "interfere", PointForm::Number),
    (
        PerturbationKind::NamespaceDeleted,
        "namespace-deleted",
        PointForm::Number,
    ),
    (
        PerturbationKind::SettledRestart,
        "settled-restart",
        PointForm::World,
    ),
    (
        PerturbationKind::DesiredState,
        "desired-state",
        PointForm::Number,
    ),
];

/// What follows the name of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PointForm {
    /// Nothing: the perturbation is one of the whole world.
    World,
    /// `@N`.
    Number,
    /// `@N:DETAIL`; the text names the detail in messages.
    NumberAndDetail(&'static str),
}

impl PerturbationKind {
    /// Returns every kind, in the order in which the kinds of one point are tried.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    /// Returns the name of the kind, such as `crash-before-write`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Parses the name of a kind.
    ///
    /// # Errors
    /// Fails with all names if there is no such kind.
    pub fn parse(text: &str) -> Result<Self, ParsePerturbationError> {
        let found = KINDS.iter().find(|(_, name, _)| *name == text);
        found.map(|(kind, ..)| *kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(_, name, _)| *name).collect();
            ParsePerturbationError {
                text: text.to_owned(),
                why: format!("the kinds are {}", names.join(", ")),
            }
        })
    }

    /// Returns whether the perturbation kills a process of the operator.
    #[must_use]
    pub fn crashes(self) -> bool {
        matches!(
            self,
            Self::CrashBeforeWrite
                | Self::CrashAfterWrite
                | Self::CrashAfterRead
                | Self::StaleRestart
        )
    }

    /// Returns whether the perturbation happens at a read, so that its number counts reads and not writes.
    #[must_use]
    pub fn is_at_read(self) -> bool {
        self == Self::CrashAfterRead
    }

    fn row(self) -> &'static (Self, &'static str, PointForm) {
        let found = KINDS.iter().find(|(kind, ..)| *kind == self);
        found.unwrap_or(&KINDS[0])
    }
}

impl Perturbation {
    /// Creates a perturbation at a write or a read, counted from 1.
    #[must_use]
    pub fn at(kind: PerturbationKind, at: usize) -> Self {
        Self {
            kind,
            at,
            detail: 0,
        }
    }

    /// Creates a perturbation of the whole world.
    #[must_use]
    pub fn of_world(kind: PerturbationKind) -> Self {
        Self::at(kind, 0)
    }

    /// Sets the code of the refusal, or the number of revisions of the older state.
    #[must_use]
    pub fn with_detail(mut self, detail: u64) -> Self {
        self.detail = detail;
        self
    }

    /// Parses names that are joined by `+`, as those of a pair; `reference` is the name of an undisturbed world, and has
    /// no perturbation.
    ///
    /// # Errors
    /// Fails for the first name that is not one of a perturbation, and for a desired state beside others.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, ParsePerturbationError> {
        if text.trim() == REFERENCE {
            return Ok(Vec::new());
        }
        let all: Result<Vec<Self>, _> = text.split('+').map(|one| one.trim().parse()).collect();
        let all = all?;
        let is_desired = |one: &Self| one.kind == PerturbationKind::DesiredState;
        if all.len() > 1 && all.iter().any(is_desired) {
            return Err(ParsePerturbationError {
                text: text.to_owned(),
                why: "a desired-state is tried alone".to_owned(),
            });
        }
        Ok(all)
    }
}

impl fmt::Display for PerturbationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match self.kind.row().2 {
            PointForm::World => Ok(()),
            PointForm::Number => write!(f, "@{}", self.at),
            PointForm::NumberAndDetail(_) => write!(f, "@{}:{}", self.at, self.detail),
        }
    }
}

impl FromStr for Perturbation {
    type Err = ParsePerturbationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, point) = match text.split_once('@') {
            Some((name, point)) => (name, Some(point)),
            None => (text, None),
        };
        let kind = PerturbationKind::parse(name)?;
        let failed = |why: String| ParsePerturbationError {
            text: text.to_owned(),
            why,
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        match (kind.row().2, point) {
            (PointForm::World, None) => Ok(Self::of_world(kind)),
            (PointForm::World, Some(_)) => Err(failed(format!("{name} has no point"))),
            (PointForm::Number, point) => {
                let at = point
                    .and_then(number)
                    .and_then(|at| usize::try_from(at).ok());
                let at =
                    at.ok_or_else(|| failed(format!("write {name}@N, with a number from 1")))?;
                Ok(Self::at(kind, at))
            }
            (PointForm::NumberAndDetail(what), point) => {
                let parts = point.and_then(|point| point.split_once(':'));
                let parsed = parts.and_then(|(at, detail)| {
                    Some((usize::try_from(number(at)?).ok()?, number(detail)?))
                });
                let wanted = || failed(format!("write {name}@N:{what}, with numbers from 1"));
                let (at, detail) = parsed.ok_or_else(wanted)?;
                Ok(Self::at(kind, at).with_detail(detail))
            }
        }
    }
}

/// The name of an undisturbed world.
pub(crate) const REFERENCE: &str = "reference";

/// Returns the names of several perturbations, joined by `+`, as `--only` takes them; `reference` for none.
pub(crate) fn join(perturbations: &[Perturbation]) -> String {
    if perturbations.is_empty() {
        return REFERENCE.to_owned();
    }
    let names: Vec<String> = perturbations.iter().map(Perturbation::to_string).collect();
    names.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_parses_again() {
        for kind in PerturbationKind::all() {
            let perturbation = match kind.row().2 {
                PointForm::World => Perturbation::of_world(kind),
                PointForm::Number => Perturbation::at(kind, 3),
                PointForm::NumberAndDetail(_) => Perturbation::at(kind, 3).with_detail(409),
            };
            assert_eq!(perturbation.to_string().parse(), Ok(perturbation));
        }
        let pair = Perturbation::parse_all("lost-answer@2 + refuse@3:409").unwrap();
        assert_eq!(join(&pair), "lost-answer@2+refuse@3:409");
        assert_eq!(Perturbation::parse_all(&join(&[])), Ok(Vec::new()));
    }

    #[test]
    fn an_error_says_how_the_name_is_written() {
        for (text, why) in [
            ("refuse@3", "write refuse@N:CODE, with numbers from 1"),
            ("lost-answer", "write lost-answer@N, with a number from 1"),
            ("lost-answer@0", "write lost-answer@N, with a number from 1"),
            ("throttled@2", "throttled has no point"),
        ] {
            let error = text.parse::<Perturbation>().unwrap_err().to_string();
            assert_eq!(error, format!("{text:?} is no perturbation: {why}"));
        }
        let error = Perturbation::parse_all("desired-state@1+throttled").unwrap_err();
        assert!(error.to_string().contains("is tried alone"), "{error}");
        let error = PerturbationKind::parse("crash").unwrap_err().to_string();
        assert!(
            error.contains("the kinds are crash-before-write, "),
            "{error}"
        );
    }
}
