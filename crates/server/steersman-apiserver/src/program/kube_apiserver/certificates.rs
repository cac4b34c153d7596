//! Driver: the certificate of the listener: named files, those of the certificate folder, or a generated one.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use super::options::KubeApiserverOptions;
use crate::program::flag_file::{FlagFile, write_file};
use crate::program::problem::{Outcome, ProgramProblem};

/// The file in the certificate folder that is locked while a certificate and its key are generated there.
const LOCK: &str = "apiserver.lock";
const FOLDER_FLAG: &str = "--cert-dir";
/// The host names and addresses in a generated certificate, besides the address of the listener.
const NAMES: [&str; 6] = [
    "kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "::1",
];

/// Returns the paths of the certificate and of its key, if the options name files or a folder.
pub(super) fn paths(options: &KubeApiserverOptions) -> Option<(PathBuf, PathBuf)> {
    let in_folder = |folder: &PathBuf| (folder.join("apiserver.crt"), folder.join("apiserver.key"));
    let named = options.tls.clone();
    named.or_else(|| options.cert_dir.as_ref().map(in_folder))
}

/// Returns the certificate and the key in PEM; `None` without named files and without a folder, so that the server
/// generates them. In a folder that has neither of the two files, both are generated, as by kube-apiserver.
pub(super) fn pair(options: &KubeApiserverOptions) -> Outcome<Option<(String, String)>> {
    let Some((certificate, key)) = paths(options) else {
        return Ok(None);
    };
    let is_complete = || certificate.exists() && key.exists();
    if let (None, Some(folder), false) = (&options.tls, &options.cert_dir, is_complete()) {
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
        // The lock makes servers that are started at the same time share one certificate and its key.
        let path = folder.join(LOCK);
        let lock = File::create(&path).map_err(failed(&path))?;
        lock.lock().map_err(failed(&path))?;
        match (certificate.exists(), key.exists()) {
            (true, true) => {}
            (false, false) => {
                let (certificate_pem, key_pem) = generate(options.address.ip())
                    .map_err(|source| ProgramProblem::Certificate { source })?;
                write_file(&key, &key_pem, 0o600).map_err(failed(&key))?;
                write_file(&certificate, &certificate_pem, 0o644).map_err(failed(&certificate))?;
            }
            (has_certificate, _) => {
                let (existing, missing) = if has_certificate {
                    (certificate, key)
                } else {
                    (key, certificate)
                };
                return Err(ProgramProblem::HalfPair { existing, missing });
            }
        }
    }
    let (certificate_flag, key_flag) = match &options.tls {
        Some(_) => ("--tls-cert-file", "--tls-private-key-file"),
        None => (FOLDER_FLAG, FOLDER_FLAG),
    };
    let certificate = FlagFile::new(certificate_flag, &certificate).certificates()?;
    let key = FlagFile::new(key_flag, &key).text()?;
    Ok(Some((certificate, key)))
}

/// Generates an authority and a certificate that it signs. Returns, in PEM, this certificate followed by that of the
/// authority, and the key of the certificate.
fn generate(address: IpAddr) -> Result<(String, String), rcgen::Error> {
    let mut authority = CertificateParams::new(Vec::new())?;
    let name = &mut authority.distinguished_name;
    name.push(DnType::CommonName, "kube-apiserver-ca");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

    let mut names = NAMES.map(str::to_owned).to_vec();
    if !address.is_loopback() && !address.is_unspecified() {
        names.push(address.to_string());
    }
    let mut own = CertificateParams::new(names)?;
    own.distinguished_name
        .push(DnType::CommonName, "kube-apiserver");
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let own = own.signed_by(&key, &authority)?;
    let chain = format!("{}{}", own.pem(), authority.pem());
    Ok((chain, key.serialize_pem()))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ProgramProblem {
    let file = FlagFile::new(FOLDER_FLAG, path);
    move |error| file.problem(error)
}
