//! Machine: reads the usable certificates in the Secret, and writes the Secret.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use steersman_object::ObjectKey;

use crate::authority::{KeyedCertificate, ParsedCertificate};

/// The usable certificates in the Secret.
///
/// Everything that the next leader needs is in the Secret (CERT-2).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredCertificates {
    /// The serving certificate. An authority of the bundle has signed it.
    pub leaf: Option<KeyedCertificate>,
    /// The authorities that API servers trust.
    pub bundle: Vec<ParsedCertificate>,
    /// The authority that signs serving certificates. The bundle contains it.
    pub signer: Option<KeyedCertificate>,
    /// The authority that will sign after the current one. The bundle contains it.
    pub next: Option<KeyedCertificate>,
    /// Whether every configuration had a bundle that contains the next authority.
    pub is_injected: bool,
    /// When the phase began, by the clock of the leader of that time.
    pub since: Option<Timestamp>,
}

/// The phases of a rotation of the authority, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotationPhase {
    /// One authority is trusted.
    Steady,
    /// The bundle contains the next authority; some configurations may have the old bundle.
    Introduced,
    /// Every configuration has the next authority; some API servers may not have noticed yet.
    Injected,
    /// The next authority has signed the serving certificate; some replicas may present the former certificate.
    Switched,
}

/// The keys of the serving certificate and of its private key in the Secret.
pub(crate) const LEAF: &str = "tls.crt";
pub(crate) const LEAF_KEY: &str = "tls.key";
/// The key of the trusted authorities in the Secret.
pub(crate) const BUNDLE: &str = "ca.crt";
/// The key of the signing authority's private key in the Secret.
pub(crate) const SIGNER_KEY: &str = "ca.key";
/// The key of the next authority's private key in the Secret.
pub(crate) const NEXT_KEY: &str = "next-ca.key";
/// The annotations with the phase and with its start.
pub(crate) const PHASE: &str = "steersman/rotation-phase";
pub(crate) const SINCE: &str = "steersman/rotation-since";

/// The type of a new Secret. An existing Secret keeps its type.
const TYPE: &str = "kubernetes.io/tls";

type SecretData = BTreeMap<String, ByteString>;

impl RotationPhase {
    /// Returns the phase as in the annotation of the Secret.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Introduced => "introduced",
            Self::Injected => "injected",
            Self::Switched => "switched",
        }
    }
}

impl StoredCertificates {
    /// Reads a Secret. Returns the parts that are usable at `wall`, and a problem for each unusable part (CERT-4). A
    /// Secret without any of the keys has no problem.
    pub fn read(secret: Option<&Secret>, wall: Timestamp) -> (Self, Vec<String>) {
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
            // After the loss of the authority, its key is absent until the next authority signs.
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

    /// Returns the serving certificate, even if it is expired or not valid yet.
    ///
    /// # Errors
    ///
    /// The problem, which names the key of the Secret.
    pub fn serving(secret: &Secret) -> Result<KeyedCertificate, String> {
        let empty = SecretData::new();
        let data = secret.data.as_ref().unwrap_or(&empty);
        serving(data, &bundle(data).0)
    }

    /// Returns the phase of the rotation.
    pub fn phase(&self) -> RotationPhase {
        match (&self.next, self.is_injected) {
            (Some(_), true) => RotationPhase::Injected,
            (Some(_), false) => RotationPhase::Introduced,
            (None, _) if self.bundle.len() > 1 => RotationPhase::Switched,
            (None, _) => RotationPhase::Steady,
        }
    }

    /// Returns whether no part is left that can sign or serve.
    pub fn is_lost(&self) -> bool {
        self.leaf.is_none() && self.signer.is_none() && self.next.is_none()
    }

    /// Returns the trusted authorities in PEM.
    pub fn bundle_pem(&self) -> String {
        self.bundle.iter().map(ParsedCertificate::pem).collect()
    }

    /// Returns the Secret with these certificates. The other fields, such as the resource version, stay.
    pub fn write(&self, secret: Option<Secret>, key: &ObjectKey) -> Secret {
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

/// Returns the trusted authorities in the Secret, and the problems of their PEM text.
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

/// Returns the authority with the private key under this key of the Secret; `None` without the key.
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

/// Returns the serving certificate. An authority of the bundle must have signed it.
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
