//! Tests the steps of a rotation on a simulated clock.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use steersman_object::ObjectKey;

use super::*;
use crate::stored_certificates::{BUNDLE, LEAF, LEAF_KEY, NEXT_KEY, SIGNER_KEY};

mod cluster;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);
const OVERLAP: Duration = Duration::from_secs(300);
const INTERVAL: Duration = Duration::from_secs(10);

fn settings() -> RotationSettings {
    RotationSettings {
        names: ["hooks.shop.svc", "hooks.shop"].map(str::to_owned).to_vec(),
        authority_lifetime: 365 * DAY,
        leaf_lifetime: 90 * DAY,
        overlap: OVERLAP,
        read_interval: INTERVAL,
    }
}

/// The simulated Secret, clocks, and one leader.
struct World {
    settings: RotationSettings,
    rotation: Rotation,
    secret: Option<Secret>,
    now: Instant,
    wall: Timestamp,
    is_injected: bool,
    former: Vec<ParsedCertificate>,
}

impl World {
    fn new(settings: RotationSettings) -> Self {
        Self {
            rotation: Rotation::new(settings.clone()),
            settings,
            secret: None,
            now: tokio::time::Instant::now().into_std(),
            wall: "2026-03-01T12:00:00Z".parse().unwrap(),
            is_injected: true,
            former: Vec::new(),
        }
    }

    /// Returns a world in which no rotation is in progress.
    fn steady() -> Self {
        let mut world = Self::new(settings());
        assert_eq!(world.look(), Some(RotationChange::Founded));
        assert_eq!(world.look(), None);
        world
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("shop", "certificates")
    }

    fn stored(&self) -> StoredCertificates {
        StoredCertificates::read(self.secret.as_ref(), self.wall).0
    }

    /// Runs one step of the leader, and writes its result to the Secret.
    fn look(&mut self) -> Option<RotationChange> {
        let (stored, problems) = StoredCertificates::read(self.secret.as_ref(), self.wall);
        let observation = Observation {
            stored: &stored,
            is_damaged: !problems.is_empty(),
            former: &self.former,
            is_injected: self.is_injected,
        };
        let step = self.rotation.next_step(observation, self.now, self.wall);
        let step = step.unwrap()?;
        self.secret = Some(step.stored.write(self.secret.take(), &Self::key()));
        Some(step.change)
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.wall = later(self.wall, time);
    }

    /// Replaces the leader. The wall clock of the new leader differs by `skew`.
    fn replace_leader(&mut self, skew: i64) {
        self.rotation = Rotation::new(self.settings.clone());
        let seconds = self.wall.as_second() + skew;
        self.wall = Timestamp::from_second(seconds).unwrap();
    }

    /// Runs a step per interval until a day passes without a change, and returns the changes.
    fn settle(&mut self) -> Vec<RotationChange> {
        let mut changes = Vec::new();
        for _ in 0..200 {
            changes.extend(self.look());
            self.pass(INTERVAL);
        }
        self.pass(DAY);
        assert_eq!(self.look(), None);
        let (stored, problems) = StoredCertificates::read(self.secret.as_ref(), self.wall);
        assert!(is_whole(&stored) && problems.is_empty(), "{problems:?}");
        changes
    }

    fn edit(&mut self, change: impl FnOnce(&mut BTreeMap<String, ByteString>)) {
        let secret = self.secret.as_mut().unwrap();
        change(secret.data.as_mut().unwrap());
    }

    fn remove(&mut self, key: &str) {
        self.edit(|data| drop(data.remove(key)));
    }
}

/// Returns whether exactly one authority is trusted, and has signed the serving certificate.
fn is_whole(stored: &StoredCertificates) -> bool {
    let (Some(leaf), Some(signer)) = (&stored.leaf, &stored.signer) else {
        return false;
    };
    stored.phase() == RotationPhase::Steady
        && stored.bundle == std::slice::from_ref(&signer.certificate)
        && leaf.certificate.is_signed_by(&signer.certificate)
}

fn is_trusted(leaf: &ParsedCertificate, bundle: &[ParsedCertificate]) -> bool {
    bundle.iter().any(|authority| leaf.is_signed_by(authority))
}

#[test]
fn a_serving_certificate_is_replaced_when_a_third_of_its_time_is_left() {
    let mut world = World::steady();
    let first = world.stored();
    world.pass(60 * DAY - SECOND);
    assert_eq!(world.look(), None);
    world.pass(2 * SECOND);
    assert_eq!(world.look(), Some(RotationChange::LeafIssued));
    let second = world.stored();
    assert_ne!(first.leaf, second.leaf);
    assert_eq!(
        (&first.signer, &first.bundle),
        (&second.signer, &second.bundle)
    );
    assert_eq!(world.look(), None);
}

/// CERT-1: every api-server trusts every replica at each moment of a rotation.
#[test]
fn an_authority_is_replaced_in_phases_with_waits() {
    let mut world = World::steady();
    for _ in 0..4 {
        world.pass(60 * DAY + SECOND);
        assert_eq!(world.look(), Some(RotationChange::LeafIssued));
    }
    let before = world.stored();
    world.pass(4 * DAY);
    assert_eq!(world.look(), Some(RotationChange::Introduced));
    let introduced = world.stored();
    assert_eq!(introduced.bundle.len(), 2);
    assert_eq!(introduced.leaf, before.leaf);
    // Without the injection, the rotation does not continue.
    world.is_injected = false;
    world.pass(HOUR);
    assert_eq!(world.look(), None);
    world.is_injected = true;
    assert_eq!(world.look(), Some(RotationChange::Injected));
    assert_eq!(world.look(), None);
    world.pass(OVERLAP - SECOND);
    assert_eq!(world.look(), None);
    world.pass(SECOND);
    assert_eq!(world.look(), Some(RotationChange::Switched));
    let switched = world.stored();
    assert_eq!(switched.bundle, introduced.bundle);
    assert_eq!(switched.signer, introduced.next);
    assert!(switched.next.is_none());
    assert_eq!(world.look(), None);
    world.pass(OVERLAP + 2 * INTERVAL - SECOND);
    assert_eq!(world.look(), None);
    world.pass(SECOND);
    assert_eq!(world.look(), Some(RotationChange::Retired));
    let after = world.stored();
    assert!(is_whole(&after));
    assert_eq!(after.signer, introduced.next);
    assert_eq!(world.settle(), []);
}

/// CERT-1: after a lost bundle was injected again, API servers need time to notice it.
#[test]
fn the_wait_begins_anew_while_a_configuration_has_another_bundle() {
    let mut world = World::steady();
    world.remove(SIGNER_KEY);
    assert_eq!(world.look(), Some(RotationChange::Introduced));
    assert_eq!(world.look(), Some(RotationChange::Injected));
    world.look();
    world.pass(OVERLAP - SECOND);
    world.is_injected = false;
    assert_eq!(world.look(), None);
    world.is_injected = true;
    world.pass(SECOND);
    assert_eq!(world.look(), None);
    world.pass(OVERLAP - SECOND);
    assert_eq!(world.look(), Some(RotationChange::Switched));
}

/// CERT-2: another leader can go on with the rotation after any request.
#[test]
fn leaders_that_are_killed_after_each_write_finish_the_rotation() {
    let mut world = World::steady();
    world.remove(SIGNER_KEY);
    let mut changes = Vec::new();
    for _ in 0..200 {
        if let Some(change) = world.look() {
            changes.push(change);
            world.replace_leader(0);
        }
        world.pass(INTERVAL);
    }
    let wanted = [
        RotationChange::Introduced,
        RotationChange::Injected,
        RotationChange::Switched,
        RotationChange::Retired,
    ];
    assert_eq!(changes, wanted);
    assert!(is_whole(&world.stored()));
}

/// CERT-2, CERT-3: a leader that does not live as long as the overlap uses the times in the Secret.
#[test]
fn leaders_that_look_once_finish_the_rotation() {
    let mut world = World::steady();
    world.remove(SIGNER_KEY);
    let mut changes = Vec::new();
    for _ in 0..1000 {
        changes.extend(world.look());
        world.replace_leader(0);
        world.pass(INTERVAL);
    }
    assert_eq!(changes.last(), Some(&RotationChange::Retired));
    assert!(is_whole(&world.stored()));
}

/// CERT-3: waits are measured by the clock of one leader, whatever the clocks of others show.
#[test]
fn clocks_that_differ_by_ten_minutes_shorten_no_wait() {
    for skew in [-600, 600] {
        let mut world = World::steady();
        world.remove(SIGNER_KEY);
        assert_eq!(world.look(), Some(RotationChange::Introduced));
        world.replace_leader(skew);
        assert!(world.stored().leaf.is_some());
        assert_eq!(world.look(), Some(RotationChange::Injected));
        for (change, wait) in [
            (RotationChange::Switched, OVERLAP),
            (RotationChange::Retired, OVERLAP + 2 * INTERVAL),
        ] {
            world.replace_leader(-skew);
            assert_eq!(world.look(), None, "{change:?} {skew}");
            world.pass(wait - SECOND);
            assert_eq!(world.look(), None, "{change:?} {skew}");
            world.pass(SECOND);
            assert_eq!(world.look(), Some(change), "{skew}");
            world.replace_leader(skew);
        }
        // A new certificate is already valid on a machine with a slow clock.
        let stored = world.stored();
        let (leaf, signer) = (stored.leaf.unwrap(), stored.signer.unwrap());
        for skew in [-600, 600] {
            let wall = Timestamp::from_second(world.wall.as_second() + skew).unwrap();
            assert!(leaf.certificate.is_valid_at(wall));
            assert!(signer.certificate.is_valid_at(wall));
        }
    }
}

/// The name of a case, the damage to the Secret, and the changes that repair the Secret.
type DamageCase = (&'static str, fn(&mut World), &'static [RotationChange]);

const ROTATION: [RotationChange; 4] = [
    RotationChange::Introduced,
    RotationChange::Injected,
    RotationChange::Switched,
    RotationChange::Retired,
];
const ANEW: [RotationChange; 1] = [RotationChange::Founded];
/// A new authority is made, and the former authority stays trusted for a while.
const REPLACED: [RotationChange; 2] = [RotationChange::Founded, RotationChange::Retired];
const LEAF_ALONE: [RotationChange; 1] = [RotationChange::LeafIssued];
const CLEANED: [RotationChange; 1] = [RotationChange::Cleaned];
const DAMAGE: [DamageCase; 12] = [
    ("the Secret is gone", |world| world.secret = None, &ANEW),
    (
        "all keys are gone",
        |world| world.edit(BTreeMap::clear),
        &ANEW,
    ),
    ("no bundle", |world| world.remove(BUNDLE), &ANEW),
    (
        "no serving certificate",
        |world| world.remove(LEAF),
        &LEAF_ALONE,
    ),
    (
        "no serving key",
        |world| world.remove(LEAF_KEY),
        &LEAF_ALONE,
    ),
    (
        "no key of the authority",
        |world| world.remove(SIGNER_KEY),
        &ROTATION,
    ),
    (
        "the bundle alone",
        |world| {
            world.remove(SIGNER_KEY);
            world.remove(LEAF);
        },
        &REPLACED,
    ),
    (
        "the certificate of another Secret",
        |world| {
            let other = World::steady().secret.unwrap().data.unwrap();
            world.edit(|data| {
                data.insert(LEAF.to_owned(), other[LEAF].clone());
                data.insert(LEAF_KEY.to_owned(), other[LEAF_KEY].clone());
            });
        },
        &LEAF_ALONE,
    ),
    (
        "the key of another Secret",
        |world| {
            let other = World::steady().secret.unwrap().data.unwrap();
            world.edit(|data| drop(data.insert(LEAF_KEY.to_owned(), other[LEAF_KEY].clone())));
        },
        &LEAF_ALONE,
    ),
    (
        "a next key of no authority",
        |world| {
            world.edit(|data| drop(data.insert(NEXT_KEY.to_owned(), data[LEAF_KEY].clone())));
        },
        &CLEANED,
    ),
    (
        "the serving certificate has expired",
        |world| world.pass(90 * DAY),
        &LEAF_ALONE,
    ),
    (
        "the authority has expired",
        |world| world.pass(365 * DAY),
        &ANEW,
    ),
];

/// CERT-4: what is absent or damaged is replaced by the least change.
#[test]
fn damage_is_repaired_with_the_least_change() {
    for (name, damage, wanted) in DAMAGE {
        let mut world = World::steady();
        damage(&mut world);
        assert_eq!(world.settle(), wanted, "{name}");
    }
}

/// CERT-4: what is absent or damaged is replaced by the least change.
#[test]
fn a_new_authority_is_trusted_beside_those_of_the_configurations() {
    let mut world = World::steady();
    let before = world.stored();
    let leaf = before.leaf.unwrap().certificate;
    let expired = KeyedCertificate::authority(DAY, Timestamp::UNIX_EPOCH).unwrap();
    world.former = before.bundle;
    world.former.push(expired.certificate);
    world.secret = None;
    assert_eq!(world.look(), Some(RotationChange::Founded));
    let after = world.stored();
    assert_eq!(after.bundle.len(), 2);
    assert!(is_trusted(&leaf, &after.bundle));
    assert_eq!(world.settle(), [RotationChange::Retired]);
    // Repeated damage does not grow the bundle without limit.
    for _ in 0..20 {
        world.former.extend(world.stored().bundle);
        world.secret = None;
        world.look();
    }
    assert_eq!(world.stored().bundle.len(), 1 + MOST_FORMER);
}

#[test]
fn damage_in_the_middle_of_a_rotation_is_repaired() {
    let introduced = || {
        let mut world = World::steady();
        world.pass(89 * DAY);
        world.look();
        world.settings.authority_lifetime = 3650 * DAY;
        world.replace_leader(0);
        assert_eq!(world.look(), Some(RotationChange::Introduced));
        assert!(world.stored().signer.is_some());
        world
    };
    let mut world = introduced();
    world.remove(LEAF);
    assert_eq!(world.look(), Some(RotationChange::LeafIssued));
    assert_eq!(world.stored().phase(), RotationPhase::Introduced);
    assert_eq!(world.settle().len(), 3);
    // If the current authority can neither sign nor be verified, the next authority takes over at once.
    let mut world = introduced();
    world.remove(LEAF);
    world.remove(SIGNER_KEY);
    assert_eq!(
        world.settle(),
        [RotationChange::Switched, RotationChange::Retired]
    );
    // A next authority without its key is forgotten, and another next authority is introduced.
    let mut world = introduced();
    world.remove(NEXT_KEY);
    let changes = world.settle();
    assert_eq!(
        changes[..2],
        [RotationChange::Retired, RotationChange::Introduced]
    );
    assert_eq!(changes.len(), 5);
}

#[test]
fn a_changed_service_gets_a_certificate_with_its_names() {
    let mut world = World::steady();
    world.settings.names.push("hooks.example.com".to_owned());
    world.replace_leader(0);
    assert_eq!(world.look(), Some(RotationChange::LeafIssued));
    let leaf = world.stored().leaf.unwrap();
    assert!(leaf.certificate.has_names(&world.settings.names));
    // A removed name stays in the certificate until the certificate is due.
    world.settings.names.truncate(1);
    world.replace_leader(0);
    assert_eq!(world.look(), None);
}

#[test]
fn a_certificate_that_expires_with_its_authority_is_not_replaced_over_and_over() {
    let mut world = World::steady();
    world.is_injected = false;
    let mut issued = 0;
    for _ in 0..364 {
        world.pass(DAY);
        issued += usize::from(world.look() == Some(RotationChange::LeafIssued));
    }
    assert!(issued <= 7, "{issued}");
    assert_eq!(world.stored().phase(), RotationPhase::Introduced);
    // When the authority is about to expire, the next authority takes over without a wait.
    world.pass(2 * DAY);
    assert_eq!(world.look(), Some(RotationChange::Switched));
}
