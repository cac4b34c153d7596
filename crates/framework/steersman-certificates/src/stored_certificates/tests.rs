//! Tests how a Secret is read and written.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::authority::later;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn wall() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn key() -> ObjectKey {
    ObjectKey::namespaced("shop", "certificates")
}

fn authority() -> KeyedCertificate {
    KeyedCertificate::authority(30 * DAY, wall()).unwrap()
}

fn leaf(signer: &KeyedCertificate) -> KeyedCertificate {
    let names = ["hooks.shop.svc".to_owned()];
    signer.issue(&names, 10 * DAY, wall()).unwrap()
}

fn steady() -> StoredCertificates {
    let signer = authority();
    StoredCertificates {
        leaf: Some(leaf(&signer)),
        bundle: vec![signer.certificate.clone()],
        signer: Some(signer),
        next: None,
        is_injected: false,
        since: Some(wall()),
    }
}

fn rotating(is_injected: bool) -> StoredCertificates {
    let (mut stored, next) = (steady(), authority());
    stored.bundle.push(next.certificate.clone());
    stored.next = Some(next);
    stored.is_injected = is_injected;
    stored
}

fn put(secret: &mut Secret, key: &str, text: impl AsRef<[u8]>) {
    let data = secret.data.get_or_insert_default();
    data.insert(key.to_owned(), ByteString(text.as_ref().to_vec()));
}

/// CERT-2: another leader can go on with the rotation after any request.
#[test]
fn what_is_written_is_read_back_in_each_phase() {
    let mut switched = rotating(false);
    switched.signer = switched.next.take();
    switched.leaf = switched.signer.as_ref().map(leaf);
    let mut lost_signer = rotating(false);
    lost_signer.signer = None;
    for (stored, phase) in [
        (steady(), RotationPhase::Steady),
        (rotating(false), RotationPhase::Introduced),
        (lost_signer, RotationPhase::Introduced),
        (rotating(true), RotationPhase::Injected),
        (switched, RotationPhase::Switched),
    ] {
        let secret = stored.write(None, &key());
        assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/tls"));
        let annotations = secret.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[PHASE], phase.as_str());
        assert_eq!(stored.phase(), phase);
        let (read, problems) = StoredCertificates::read(Some(&secret), wall());
        assert_eq!((read, problems), (stored, Vec::new()));
    }
}

#[test]
fn a_write_keeps_what_is_not_its_own() {
    let existing: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": "certificates", "namespace": "shop", "resourceVersion": "7",
            "labels": {"app": "hooks"}, "annotations": {"note": "kept"},
        },
        "type": "Opaque", "data": {"other": "eA==", "next-ca.key": "eA=="},
    }))
    .unwrap();
    let secret = steady().write(Some(existing.clone()), &key());
    assert_eq!(secret.metadata.labels, existing.metadata.labels);
    assert_eq!(secret.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(
        secret.metadata.annotations.as_ref().unwrap()["note"],
        "kept"
    );
    assert_eq!(secret.type_.as_deref(), Some("Opaque"));
    let data = secret.data.unwrap();
    assert!(data.contains_key("other") && !data.contains_key(NEXT_KEY));
}

#[test]
fn a_secret_without_certificates_has_no_problem() {
    let mut empty = Secret::default();
    put(&mut empty, LEAF, "");
    put(&mut empty, "other", "x");
    for secret in [None, Some(&Secret::default()), Some(&empty)] {
        let (stored, problems) = StoredCertificates::read(secret, wall());
        assert!(stored.is_lost() && problems.is_empty());
    }
    assert!(StoredCertificates::serving(&empty).is_err());
}

/// Texts that replace parts of a Secret, whether its leaf and its signer are usable then, and a part of the problem.
type DamageCase = (&'static [(&'static str, Text)], bool, bool, &'static str);

/// A text that replaces a part of a Secret.
#[derive(Clone, Copy)]
enum Text {
    Is(&'static str),
    /// The first bytes of the original text.
    Cut,
    /// The text of the same key in another Secret.
    Foreign,
    /// The text of this other key in the same Secret.
    Of(&'static str),
}

const DAMAGE: [DamageCase; 15] = [
    (&[(BUNDLE, Text::Is(""))], false, false, "ca.crt is missing"),
    (&[(BUNDLE, Text::Cut)], false, false, "ca.crt: the PEM"),
    (&[(BUNDLE, Text::Of(LEAF))], false, false, "is no authority"),
    (
        &[(BUNDLE, Text::Foreign)],
        false,
        false,
        "no authority in ca.crt",
    ),
    (&[(LEAF, Text::Is(""))], false, true, "tls.crt is missing"),
    (&[(LEAF, Text::Cut)], false, true, "tls.crt: the PEM"),
    (
        &[(LEAF, Text::Is("x"))],
        false,
        true,
        "tls.crt: there is no certificate",
    ),
    (
        &[(LEAF_KEY, Text::Is(""))],
        false,
        true,
        "tls.key is missing",
    ),
    (
        &[(LEAF_KEY, Text::Foreign)],
        false,
        true,
        "tls.key does not belong",
    ),
    (
        &[(LEAF_KEY, Text::Cut)],
        false,
        true,
        "tls.key: the key cannot be read",
    ),
    (
        &[(LEAF, Text::Foreign), (LEAF_KEY, Text::Foreign)],
        false,
        true,
        "no authority in ca.crt has signed",
    ),
    (
        &[(SIGNER_KEY, Text::Is(""))],
        true,
        false,
        "ca.key is missing",
    ),
    (
        &[(SIGNER_KEY, Text::Is("x"))],
        true,
        false,
        "ca.key: the key cannot be read",
    ),
    (
        &[(SIGNER_KEY, Text::Foreign)],
        true,
        false,
        "ca.key belongs to no authority",
    ),
    (
        &[(NEXT_KEY, Text::Of(LEAF_KEY))],
        true,
        true,
        "next-ca.key belongs to no authority",
    ),
];

/// CERT-4: what is absent or damaged is replaced by the least change.
#[test]
fn each_damage_is_named_and_leaves_the_rest_usable() {
    let good = steady().write(None, &key());
    let foreign = steady().write(None, &key());
    let text_of = |secret: &Secret, key: &str| secret.data.as_ref().unwrap()[key].0.clone();
    for (changes, has_leaf, has_signer, part) in DAMAGE {
        let mut secret = good.clone();
        for (name, text) in changes {
            let text = match text {
                Text::Is(text) => text.as_bytes().to_vec(),
                Text::Cut => text_of(&good, name)[..100].to_vec(),
                Text::Foreign => text_of(&foreign, name),
                Text::Of(other) => text_of(&good, other),
            };
            put(&mut secret, name, text);
        }
        let (stored, problems) = StoredCertificates::read(Some(&secret), wall());
        let usable = (stored.leaf.is_some(), stored.signer.is_some());
        assert_eq!(usable, (has_leaf, has_signer), "{part}: {problems:?}");
        let is_named = problems.iter().any(|problem| problem.contains(part));
        assert!(is_named, "{part}: {problems:?}");
        let serving = StoredCertificates::serving(&secret);
        assert_eq!(serving.is_ok(), has_leaf, "{part}");
    }
}

/// CERT-4, CERT-5
#[test]
fn a_certificate_that_is_not_valid_now_is_replaced_and_served_until_then() {
    let secret = steady().write(None, &key());
    let read = |wall| StoredCertificates::read(Some(&secret), wall);
    let (stored, problems) = read(later(wall(), 10 * DAY));
    assert!(stored.leaf.is_none() && stored.signer.is_some());
    assert!(problems[0].starts_with("the certificate in tls.crt has expired at 2026-03-11"));
    let (stored, problems) = read(later(wall(), 30 * DAY));
    assert!(stored.is_lost());
    assert!(problems[1].starts_with("the authority of ca.key has expired at 2026-03-31"));
    let (stored, problems) = read(Timestamp::UNIX_EPOCH);
    assert!(stored.is_lost());
    assert!(problems[0].contains("is not valid before 2026-03-01T11:00:00Z"));
    // CERT-3: waits are measured by the clock of one leader, whatever the clocks of others show.
    for skewed in ["2026-03-01T11:50:00Z", "2026-03-01T12:10:00Z"] {
        assert_eq!(read(skewed.parse().unwrap()).1, Vec::<String>::new());
    }
    assert!(StoredCertificates::serving(&secret).is_ok());
}

#[test]
fn annotations_that_were_removed_or_changed_lead_to_an_earlier_phase() {
    let stored = rotating(true);
    let mut secret = stored.write(None, &key());
    secret.metadata.annotations = None;
    let (read, problems) = StoredCertificates::read(Some(&secret), wall());
    assert_eq!(
        (read.phase(), read.since),
        (RotationPhase::Introduced, None)
    );
    assert!(problems.is_empty());
    let mut secret = steady().write(None, &key());
    let annotations = secret.metadata.annotations.as_mut().unwrap();
    annotations.insert(PHASE.to_owned(), "injected".to_owned());
    annotations.insert(SINCE.to_owned(), "yesterday".to_owned());
    let (read, _) = StoredCertificates::read(Some(&secret), wall());
    assert_eq!((read.phase(), read.since), (RotationPhase::Steady, None));
}
