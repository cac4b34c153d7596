//! Machine: decides the next content of the Secret: a new serving certificate, or the next step of a rotation.

use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;

use crate::authority::{CLOCK_SKEW, KeyedCertificate, ParsedCertificate, later};
use crate::stored_certificates::{RotationPhase, StoredCertificates};

/// The names and durations that the rotation needs.
#[derive(Clone, Debug)]
pub struct RotationSettings {
    /// The DNS names and addresses of the serving certificate.
    pub names: Vec<String>,
    /// How long an authority is valid.
    pub authority_lifetime: Duration,
    /// How long a serving certificate is valid.
    pub leaf_lifetime: Duration,
    /// How long API servers may still use an old bundle after its replacement.
    pub overlap: Duration,
    /// The time between two reads of the Secret by a replica.
    pub read_interval: Duration,
}

/// Decides the steps of one leader. The state is in the Secret, except for the moment at which this leader first saw
/// the phase.
#[derive(Debug)]
pub struct Rotation {
    settings: RotationSettings,
    seen: Option<SeenPhase>,
}

/// What a leader sees before a step.
#[derive(Clone, Copy, Debug)]
pub struct Observation<'a> {
    /// The usable certificates in the Secret.
    pub stored: &'a StoredCertificates,
    /// Whether a part of the Secret is unusable.
    pub is_damaged: bool,
    /// The authorities found in the configurations. The bundle of a new authority includes them.
    pub former: &'a [ParsedCertificate],
    /// Whether every configuration had the bundle of the Secret.
    pub is_injected: bool,
}

/// The phase in the Secret, and the moment at which this leader first saw that phase.
#[derive(Debug)]
struct SeenPhase {
    phase: RotationPhase,
    since: Option<Timestamp>,
    bundle: Vec<ParsedCertificate>,
    at: Instant,
}

/// A change of the Secret: its next content, and the reason.
#[derive(Clone, Debug)]
pub struct RotationStep {
    /// The next content of the Secret.
    pub stored: StoredCertificates,
    /// The reason.
    pub change: RotationChange,
}

/// The reason of a change of the Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationChange {
    /// Nothing in the Secret was usable: a new authority and a new serving certificate were made.
    Founded,
    /// The authority has signed a new serving certificate.
    LeafIssued,
    /// The next authority was added to the bundle.
    Introduced,
    /// Every configuration has the bundle that contains the next authority.
    Injected,
    /// The next authority became the signing authority, and has signed a new serving certificate.
    Switched,
    /// The former authorities were removed from the bundle.
    Retired,
    /// Unusable parts that were not needed were removed from the Secret.
    Cleaned,
}

/// The number of former authorities that the bundle of a new one includes. The limit stops repeated damage from growing
/// the bundle.
const MOST_FORMER: usize = 8;

impl RotationChange {
    /// Returns the change as the end of a log message about the Secret.
    pub fn text(self) -> &'static str {
        match self {
            Self::Founded => "there was nothing to use, so there is a new authority",
            Self::LeafIssued => "there is a new serving certificate of the same authority",
            Self::Introduced => "the rotation of the authority begins: the next one is trusted",
            Self::Injected => "the next authority is in every configuration",
            Self::Switched => "the next authority has signed the serving certificate",
            Self::Retired => "the rotation of the authority ends: the former one is not trusted",
            Self::Cleaned => "parts that could not be used are gone",
        }
    }

    /// Returns whether the change made a serving certificate.
    pub fn has_new_leaf(self) -> bool {
        matches!(self, Self::Founded | Self::LeafIssued | Self::Switched)
    }

    /// Returns whether the serving certificate has another authority after the change.
    pub fn has_new_authority(self) -> bool {
        matches!(self, Self::Founded | Self::Switched)
    }
}

impl Rotation {
    /// Makes the machine of a leader that has seen no phase.
    pub fn new(settings: RotationSettings) -> Self {
        Self {
            settings,
            seen: None,
        }
    }

    /// Returns the next content of the Secret; `None` if it is not to be changed.
    ///
    /// # Errors
    ///
    /// A certificate cannot be made.
    pub fn next_step(
        &mut self,
        observation: Observation<'_>,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<RotationStep>, String> {
        let stored = observation.stored;
        self.observe(stored, observation.is_injected, now);
        let decided = self.decide(observation, now, wall)?;
        let cleaned = || step(stored.clone(), RotationChange::Cleaned);
        Ok(decided.or_else(|| observation.is_damaged.then(cleaned)))
    }

    fn decide(
        &self,
        observation: Observation<'_>,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<RotationStep>, String> {
        let stored = observation.stored;
        // CERT-4: the least change after which everything is usable.
        let step = match (&stored.leaf, &stored.signer, &stored.next) {
            (None, Some(signer), _) => self.issue(stored, signer, wall)?,
            (None, None, Some(next)) => self.switch(stored, next, wall)?,
            (None, None, None) => self.found(stored, observation.former, wall)?,
            (Some(_), None, None) => self.introduce(stored, wall)?,
            (Some(leaf), _, Some(next)) if leaf.certificate.is_signed_by(&next.certificate) => {
                self.switch(stored, next, wall)?
            }
            (Some(leaf), Some(signer), _) if self.is_leaf_due(leaf, signer, wall) => {
                self.issue(stored, signer, wall)?
            }
            _ => return self.advance(stored, observation.is_injected, now, wall),
        };
        Ok(Some(step))
    }

    /// Returns the next step of a rotation in progress, or starts a rotation if the authority is due.
    fn advance(
        &self,
        stored: &StoredCertificates,
        is_injected: bool,
        now: Instant,
        wall: Timestamp,
    ) -> Result<Option<RotationStep>, String> {
        let settings = &self.settings;
        let step = match (stored.phase(), &stored.signer, &stored.next) {
            (RotationPhase::Introduced, ..) if is_injected => Some(injected(stored, wall)),
            // CERT-1: the authority switches only when no API server uses a bundle without the next authority.
            (RotationPhase::Injected, _, Some(next))
                if is_injected && self.has_waited(settings.overlap, now, wall) =>
            {
                Some(self.switch(stored, next, wall)?)
            }
            // CERT-1: former authorities are removed only when no replica presents a certificate of a former authority.
            (RotationPhase::Switched, Some(signer), _)
                if self.has_waited(settings.retirement(), now, wall) =>
            {
                Some(retire(stored, signer, wall))
            }
            (RotationPhase::Steady, Some(signer), _)
                if is_due(signer, settings.authority_lifetime, wall) =>
            {
                Some(self.introduce(stored, wall)?)
            }
            _ => None,
        };
        Ok(step)
    }

    /// Records when this leader first saw the phase. The wait for API servers restarts while a configuration has
    /// another bundle.
    fn observe(&mut self, stored: &StoredCertificates, is_injected: bool, now: Instant) {
        let phase = stored.phase();
        let is_same = self.seen.as_ref().is_some_and(|seen| {
            seen.phase == phase && seen.since == stored.since && seen.bundle == stored.bundle
        });
        let is_interrupted = phase == RotationPhase::Injected && !is_injected;
        if !is_same || is_interrupted {
            self.seen = Some(SeenPhase {
                phase,
                since: stored.since,
                bundle: stored.bundle.clone(),
                at: now,
            });
        }
    }

    /// CERT-3: returns whether the phase has lasted `wait`: by the monotonic clock of this leader, or by the times in
    /// the Secret with a margin for different clocks.
    fn has_waited(&self, wait: Duration, now: Instant, wall: Timestamp) -> bool {
        let Some(seen) = &self.seen else {
            return false;
        };
        let by_wall = seen
            .since
            .map(|since| later(later(since, wait), CLOCK_SKEW));
        now.saturating_duration_since(seen.at) >= wait || by_wall.is_some_and(|end| end <= wall)
    }

    /// Returns whether the authority has to sign a new serving certificate.
    fn is_leaf_due(
        &self,
        leaf: &KeyedCertificate,
        signer: &KeyedCertificate,
        wall: Timestamp,
    ) -> bool {
        let certificate = &leaf.certificate;
        // A new certificate of the same authority would not expire later.
        let can_gain = certificate.not_after < signer.certificate.not_after;
        !certificate.is_signed_by(&signer.certificate)
            || !certificate.has_names(&self.settings.names)
            || (can_gain && is_due(leaf, self.settings.leaf_lifetime, wall))
    }

    /// Signs a new serving certificate. In the last phase the wait restarts, because replicas may still present the
    /// certificate of a former authority.
    fn issue(
        &self,
        stored: &StoredCertificates,
        signer: &KeyedCertificate,
        wall: Timestamp,
    ) -> Result<RotationStep, String> {
        let since = match stored.phase() {
            RotationPhase::Switched => Some(wall),
            _ => stored.since,
        };
        let stored = StoredCertificates {
            leaf: Some(self.leaf_of(signer, wall)?),
            since,
            ..stored.clone()
        };
        Ok(step(stored, RotationChange::LeafIssued))
    }

    fn introduce(
        &self,
        stored: &StoredCertificates,
        wall: Timestamp,
    ) -> Result<RotationStep, String> {
        let next = KeyedCertificate::authority(self.settings.authority_lifetime, wall)?;
        let mut stored = stored.clone();
        stored.bundle.push(next.certificate.clone());
        stored.next = Some(next);
        stored.is_injected = false;
        stored.since = Some(wall);
        Ok(step(stored, RotationChange::Introduced))
    }

    /// Makes the next authority the signing authority.
    fn switch(
        &self,
        stored: &StoredCertificates,
        next: &KeyedCertificate,
        wall: Timestamp,
    ) -> Result<RotationStep, String> {
        let stored = StoredCertificates {
            leaf: Some(self.leaf_of(next, wall)?),
            bundle: stored.bundle.clone(),
            signer: Some(next.clone()),
            next: None,
            is_injected: false,
            since: Some(wall),
        };
        Ok(step(stored, RotationChange::Switched))
    }

    /// CERT-4: makes a new authority when no old one is usable. Readable authorities stay in the bundle, because
    /// replicas may present certificates of these authorities.
    fn found(
        &self,
        stored: &StoredCertificates,
        former: &[ParsedCertificate],
        wall: Timestamp,
    ) -> Result<RotationStep, String> {
        let signer = KeyedCertificate::authority(self.settings.authority_lifetime, wall)?;
        let mut bundle = vec![signer.certificate.clone()];
        for one in stored.bundle.iter().chain(former) {
            if one.is_authority() && one.is_valid_at(wall) && !bundle.contains(one) {
                bundle.push(one.clone());
            }
        }
        bundle.truncate(1 + MOST_FORMER);
        let stored = StoredCertificates {
            leaf: Some(self.leaf_of(&signer, wall)?),
            bundle,
            signer: Some(signer),
            next: None,
            is_injected: false,
            since: Some(wall),
        };
        Ok(step(stored, RotationChange::Founded))
    }

    fn leaf_of(
        &self,
        authority: &KeyedCertificate,
        wall: Timestamp,
    ) -> Result<KeyedCertificate, String> {
        authority.issue(&self.settings.names, self.settings.leaf_lifetime, wall)
    }
}

impl RotationSettings {
    /// Returns how long a former authority stays in the bundle: until each replica has read the Secret, even if one
    /// read fails.
    pub fn retirement(&self) -> Duration {
        self.overlap
            .saturating_add(self.read_interval.saturating_mul(2))
    }
}

fn step(stored: StoredCertificates, change: RotationChange) -> RotationStep {
    RotationStep { stored, change }
}

/// Returns the step that records the injection of the bundle into every configuration.
fn injected(stored: &StoredCertificates, wall: Timestamp) -> RotationStep {
    let stored = StoredCertificates {
        is_injected: true,
        since: Some(wall),
        ..stored.clone()
    };
    step(stored, RotationChange::Injected)
}

/// Returns the step that removes all authorities except the signing one from the bundle.
fn retire(stored: &StoredCertificates, signer: &KeyedCertificate, wall: Timestamp) -> RotationStep {
    let stored = StoredCertificates {
        bundle: vec![signer.certificate.clone()],
        since: Some(wall),
        ..stored.clone()
    };
    step(stored, RotationChange::Retired)
}

/// Returns whether less than a third of a certificate's lifetime is left.
fn is_due(keyed: &KeyedCertificate, lifetime: Duration, wall: Timestamp) -> bool {
    later(wall, lifetime / 3) > keyed.certificate.not_after
}

#[cfg(test)]
mod tests;
