//! Machine: the certificates in the Secret, as far as they can be used.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use steersman_object::ObjectKey;

use crate::certificates::authority::{KeyedCertificate, ParsedCertificate};

/// The certificates in the Secret, as far as they can be used.
///
/// Everything that the next leader needs is in the Secret (CERT-2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredCertificates {
    /// The certificate that the servers present. An authority of the bundle has signed it.
    pub(crate) leaf: Option<KeyedCertificate>,
    /// The authorities that clients trust.
    pub(crate) bundle: Vec<ParsedCertificate>,
    /// The authority that signs serving certificates; it is in the bundle.
    pub(crate) signer: Option<KeyedCertificate>,
    /// The authority that will sign serving certificates next; it is in the bundle.
    pub(crate) next: Option<KeyedCertificate>,
    /// Whether every configuration had a bundle with the next authority.
    pub(crate) is_injected: bool,
    /// When the phase began, by the clock of the leader at that time.
    pub(crate) since: Option<Timestamp>,
}

/// The phases of a rotation of the authority, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotationPhase {
    /// One authority is trusted.
    Steady,
    /// The next authority is in the bundle, which may not be in every configuration.
    Introduced,
    /// Every configuration has the next authority. Servers may not have seen the change yet.
    Injected,
    /// The next authority has signed the serving certificate. Replicas may still present the former one.
    Switched,
}

/// The certificate that the servers present, and its key.
pub(crate) const LEAF: &str = "tls.crt";
pub(crate) const LEAF_KEY: &str = "tls.key";
/// The authorities that clients trust.
pub(crate) const BUNDLE: &str = "ca.crt";
/// The key of the authority that signs.
pub(crate) const SIGNER_KEY: &str = "ca.key";
/// The key of the next authority.
pub(crate) const NEXT_KEY: &str = "next-ca.key";
/// The annotations with the phase and its beginning.
pub(crate) const PHASE: &str = "steersman/rotation-phase";
pub(crate) const SINCE: &str = "steersman/rotation-since";

/// The type of a new Secret. An existing Secret keeps its type.
const TYPE: &str = "kubernetes.io/tls";

type SecretData = BTreeMap<String, ByteString>;

impl RotationPhase {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Introduced => "introduced",
            Self::Injected => "injected",
            Self::Switched => "switched",
        }
    }
}

impl StoredCertificates {
    /// Reads a Secret. Returns what can be used at `wall`, and a problem for each part that cannot (CERT-4). A Secret
    /// without any of the keys has no problem.
    pub(crate) fn read(secret: Option<&Secret>, wall: Timestamp) -> (Self, Vec<String>) {
        let empty = SecretData::new();
        let data = secret.and_then(|secret| secret.data.as_ref());
        let data = data.unwrap_or(&empty);
        let keys = [LEAF, LEAF_KEY, BUNDLE, SIGNER_KEY, NEXT_KEY];
        if keys.iter().all(|key| text(data, key).is_none()) {
            return (Self::default(), Vec::new());
        }
        let (bundle, mut problems) = bundle(data);
        let mut usable = |read: Result<Option<KeyedCertificate>, String>| {
            read.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let leaf = serving(data, &bundle).and_then(|leaf| {
            let checked = leaf.certificate.check_time(wall);
            checked.map_err(|why| format!("the certificate in {LEAF} {why}"))?;
            Ok(Some(leaf))
        });
        let leaf = usable(leaf);
        let next = usable(authority(data, NEXT_KEY, &bundle, wall));
        let signer = authority(data, SIGNER_KEY, &bundle, wall);
        let signer = usable(match signer {
            // The key is absent after the loss of the authority, until the next authority signs.
            Ok(None) if next.is_none() => Err(format!("{SIGNER_KEY} is missing")),
            signer => signer,
        });
        let annotations = secret.and_then(|secret| secret.metadata.annotations.as_ref());
        let annotation = |key: &str| annotations.and_then(|all| all.get(key));
        let phase = annotation(PHASE).map(String::as_str);
        let stored = Self {
            leaf,
            bundle,
            signer,
            is_injected: next.is_some() && phase == Some(RotationPhase::Injected.as_str()),
            next,
            since: annotation(SINCE).and_then(|since| since.parse().ok()),
        };
        (stored, problems)
    }

    /// Returns the certificate that servers can present, whatever the time is.
    ///
    /// # Errors
    ///
    /// The problem, which names the key of the Secret.
    pub(crate) fn serving(secret: &Secret) -> Result<KeyedCertificate, String> {
        let empty = SecretData::new();
        let data = secret.data.as_ref().unwrap_or(&empty);
        serving(data, &bundle(data).0)
    }

    pub(crate) fn phase(&self) -> RotationPhase {
        match (&self.next, self.is_injected) {
            (Some(_), true) => RotationPhase::Injected,
            (Some(_), false) => RotationPhase::Introduced,
            (None, _) if self.bundle.len() > 1 => RotationPhase::Switched,
            (None, _) => RotationPhase::Steady,
        }
    }

    /// Returns whether nothing is left that can sign or serve.
    pub(crate) fn is_lost(&self) -> bool {
        self.leaf.is_none() && self.signer.is_none() && self.next.is_none()
    }

    /// Returns the authorities that clients trust, in PEM.
    pub(crate) fn bundle_pem(&self) -> String {
        self.bundle.iter().map(ParsedCertificate::pem).collect()
    }

    /// Returns the Secret with these certificates. Everything else in the Secret stays, its version included.
    pub(crate) fn write(&self, secret: Option<Secret>, key: &ObjectKey) -> Secret {
        let mut secret = secret.unwrap_or_else(|| Secret {
            metadata: key.to_meta(),
            type_: Some(TYPE.to_owned()),
            ..Secret::default()
        });
        let data = secret.data.get_or_insert_default();
        let mut set = |key: &str, text: Option<String>| {
            match text {
                Some(text) => data.insert(key.to_owned(), ByteString(text.into_bytes())),
                None => data.remove(key),
            };
        };
        let key_of = |keyed: &KeyedCertificate| keyed.key().to_owned();
        let leaf = self.leaf.as_ref();
        set(LEAF, leaf.map(|leaf| leaf.certificate.pem()));
        set(LEAF_KEY, leaf.map(key_of));
        set(BUNDLE, Some(self.bundle_pem()));
        set(SIGNER_KEY, self.signer.as_ref().map(key_of));
        set(NEXT_KEY, self.next.as_ref().map(key_of));
        let annotations = secret.metadata.annotations.get_or_insert_default();
        annotations.insert(PHASE.to_owned(), self.phase().as_str().to_owned());
        match self.since {
            Some(since) => annotations.insert(SINCE.to_owned(), since.to_string()),
            None => annotations.remove(SINCE),
        };
        secret
    }
}

fn text<'a>(data: &'a SecretData, key: &str) -> Option<&'a [u8]> {
    let text = data.get(key).map(|text| text.0.as_slice());
    text.filter(|text| !text.is_empty())
}

/// Returns the authorities of the Secret, and the problems of their text.
fn bundle(data: &SecretData) -> (Vec<ParsedCertificate>, Vec<String>) {
    let Some(text) = text(data, BUNDLE) else {
        return (Vec::new(), vec![format!("{BUNDLE} is missing")]);
    };
    let (read, problem) = ParsedCertificate::all(text);
    let (authorities, others): (Vec<_>, Vec<_>) =
        read.into_iter().partition(ParsedCertificate::is_authority);
    let strange = (!others.is_empty()).then(|| "a certificate is no authority".to_owned());
    let problems = problem.into_iter().chain(strange);
    let problems = problems.map(|problem| format!("{BUNDLE}: {problem}"));
    (authorities, problems.collect())
}

/// Returns the authority of a key in the Secret; `None` without the key.
fn authority(
    data: &SecretData,
    name: &str,
    bundle: &[ParsedCertificate],
    wall: Timestamp,
) -> Result<Option<KeyedCertificate>, String> {
    let Some(key) = text(data, name) else {
        return Ok(None);
    };
    let joined = KeyedCertificate::join(bundle, key);
    let joined = joined.map_err(|problem| format!("{name}: {problem}"))?;
    let Some(authority) = joined else {
        return Err(format!("{name} belongs to no authority in {BUNDLE}"));
    };
    let checked = authority.certificate.check_time(wall);
    checked.map_err(|why| format!("the authority of {name} {why}"))?;
    Ok(Some(authority))
}

/// Returns the certificate that the servers present, which an authority of the bundle must have signed.
fn serving(data: &SecretData, bundle: &[ParsedCertificate]) -> Result<KeyedCertificate, String> {
    let missing = |key: &str| format!("{key} is missing");
    let chain = text(data, LEAF).ok_or_else(|| missing(LEAF))?;
    let key = text(data, LEAF_KEY).ok_or_else(|| missing(LEAF_KEY))?;
    let (read, problem) = ParsedCertificate::all(chain);
    let Some(leaf) = read.into_iter().next() else {
        return Err(format!("{LEAF}: {}", problem.unwrap_or_default()));
    };
    let leaf = KeyedCertificate::join(&[leaf], key);
    let leaf = leaf.map_err(|problem| format!("{LEAF_KEY}: {problem}"))?;
    let leaf = leaf.ok_or_else(|| format!("{LEAF_KEY} does not belong to {LEAF}"))?;
    match bundle.iter().any(|one| leaf.certificate.is_signed_by(one)) {
        true => Ok(leaf),
        false => Err(format!(
            "no authority in {BUNDLE} has signed the certificate in {LEAF}"
        )),
    }
}

#[cfg(test)]
mod tests;
