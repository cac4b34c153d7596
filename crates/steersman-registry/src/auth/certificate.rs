//! Machine: derives the user from a client certificate.

use x509_parser::prelude::{FromDer as _, X509Certificate};

use super::user::User;

/// Returns the user of a certificate as `x509.CommonNameUserConversion` does: the common name is
/// the user's name, the organizations are the groups. `None` without a common name. The TLS
/// handshake has verified the certificate.
pub fn user_of(certificate: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let text = |attribute: &x509_parser::x509::AttributeTypeAndValue<'_>| {
        attribute.as_str().ok().map(str::to_owned)
    };
    // Of several common names Go keeps the last.
    let name = subject.iter_common_name().filter_map(text).last();
    let name = name.filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().filter_map(text);
    Some(groups.fold(User::new(name), User::group).authenticated())
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
        ]);
        let user = user_of(&der).unwrap();
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
