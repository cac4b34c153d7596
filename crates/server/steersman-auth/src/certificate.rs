//! Machine: reads the user from a client certificate.

use ring::digest::{SHA256, digest};
use x509_parser::oid_registry::{Oid, asn1_rs::oid};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::user::{CREDENTIAL_ID, User};

/// The attribute in the subject of a certificate with the user's uid (`AllowParsingUserUIDFromCertAuth`).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// Returns the user in a certificate as `x509.CommonNameUserConversion` does: the common name is the name of the user,
/// and the organizations are the groups. `None` without a common name. The caller has verified the certificate.
pub fn user_of(certificate: &[u8]) -> Option<User> {
    let hash = digest(&SHA256, certificate);
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().ok().map(str::to_owned)
    };
    // As Go, the last of several common names counts.
    let name = subject.iter_common_name().filter_map(text).last();
    let name = name.filter(|name| !name.is_empty())?;
    let uid = subject.iter_by_oid(&UID).find_map(text).unwrap_or_default();
    let hash = hash.as_ref().iter();
    let hash: String = hash.map(|byte| format!("{byte:02x}")).collect();
    let user = User::new(name)
        .uid(uid)
        .extra(CREDENTIAL_ID, format!("X509SHA256={hash}"));
    let groups = subject.iter_organization().filter_map(text);
    Some(groups.fold(user, User::group).authenticated())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::user_of;

    fn certificate(names: &[(DnType, &str)]) -> Vec<u8> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), *name);
        }
        let own = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        own.der().to_vec()
    }

    #[test]
    fn a_certificate_names_a_user_and_groups() {
        let der = certificate(&[
            (DnType::CommonName, "ann"),
            (DnType::OrganizationName, "system:masters"),
            (
                DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]),
                "u-1",
            ),
        ]);
        let user = user_of(&der).unwrap();
        assert_eq!(user.uid, "u-1");
        let [credential] = &user.extra["authentication.kubernetes.io/credential-id"][..] else {
            panic!("{user:?}")
        };
        let hash = credential.strip_prefix("X509SHA256=").unwrap();
        assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(user.name, "ann");
        assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    }

    #[test]
    fn a_certificate_without_a_common_name_names_no_user() {
        let der = certificate(&[(DnType::OrganizationName, "system:masters")]);
        assert_eq!(user_of(&der), None);
        assert_eq!(user_of(&[]), None);
        assert_eq!(user_of(b"not a certificate"), None);
    }
}
