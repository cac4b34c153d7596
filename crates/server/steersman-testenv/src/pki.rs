//! Machine: the certificates and keys of a real kube-apiserver, generated for one environment.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

const NAMES: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

#[derive(Debug)]
pub(crate) struct Pki {
    pub(crate) ca: String,
    pub(crate) server: CertificatePair,
    /// The administrator (`system:masters`).
    pub(crate) admin: CertificatePair,
    /// The key pair that signs tokens of ServiceAccounts; `certificate` is the public key.
    pub(crate) accounts: CertificatePair,
}

#[derive(Debug)]
pub(crate) struct CertificatePair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Pki {
    pub(crate) fn generate() -> Result<Self, rcgen::Error> {
        let mut ca = CertificateParams::new(Vec::new())?;
        ca.distinguished_name
            .push(DnType::CommonName, "steersman-testenv-ca");
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let ca = CertifiedIssuer::self_signed(ca, KeyPair::generate()?)?;

        let mut server = CertificateParams::new(NAMES.map(str::to_owned).to_vec())?;
        let name = &mut server.distinguished_name;
        name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

        let mut admin = CertificateParams::new(Vec::new())?;
        let name = &mut admin.distinguished_name;
        name.push(DnType::CommonName, "steersman-testenv-admin");
        name.push(DnType::OrganizationName, "system:masters");
        admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];

        let accounts = KeyPair::generate()?;
        Ok(Self {
            server: sign(server, &ca)?,
            admin: sign(admin, &ca)?,
            accounts: CertificatePair {
                certificate: accounts.public_key_pem(),
                key: accounts.serialize_pem(),
            },
            ca: ca.pem(),
        })
    }
}

fn sign(
    mut params: CertificateParams,
    ca: &CertifiedIssuer<'static, KeyPair>,
) -> Result<CertificatePair, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?.pem();
    let key = key.serialize_pem();
    Ok(CertificatePair { certificate, key })
}
