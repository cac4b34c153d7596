//! Machine: checks the certificates that a Deployment mounts, and the certificate of the kubeconfig's user.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use steersman_api::ClientCertificate;
use steersman_certificates::{CertificateState, CertificateTimes};
use steersman_object::json_items;

use crate::doctor::finding::{DoctorFinding, SeenObject};
use crate::doctor::workload::flag_value;

/// A server of an operator, and the flags that set its certificate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CertificateFlags {
    server: &'static str,
    folder: &'static str,
    file: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MountedCertificate<'a> {
    flags: CertificateFlags,
    folder: &'a str,
    file: &'a str,
    /// The Secret of the mounted volume; `None` if the volume is not a Secret.
    pub(crate) secret: Option<&'a str>,
}

const SERVERS: [CertificateFlags; 2] = [
    CertificateFlags {
        server: "the webhooks",
        folder: "--webhook-cert-path",
        file: "--webhook-cert-name",
    },
    CertificateFlags {
        server: "the metrics server",
        folder: "--metrics-cert-path",
        file: "--metrics-cert-name",
    },
];
const RENEW: &str = "renew it: with cert-manager, `kubectl describe certificate` in the namespace of the operator says what is wrong";

/// Returns the certificates that a Deployment mounts for its servers.
pub(crate) fn mounted_certificates(deployment: &Value) -> Vec<MountedCertificate<'_>> {
    let mounted = SERVERS.into_iter().filter_map(|flags| {
        let folder = flag_value(deployment, flags.folder)?;
        Some(MountedCertificate {
            flags,
            folder,
            file: flag_value(deployment, flags.file).unwrap_or("tls.crt"),
            secret: mounted_secret(deployment, folder),
        })
    });
    mounted.collect()
}

fn mounted_secret<'a>(deployment: &'a Value, folder: &str) -> Option<&'a str> {
    let pod = &deployment["spec"]["template"]["spec"];
    let folder = folder.trim_end_matches('/');
    let is_at_folder = |mount: &&Value| {
        let path = mount["mountPath"].as_str();
        path.is_some_and(|path| path.trim_end_matches('/') == folder)
    };
    let containers = json_items(&pod["containers"]);
    let mut mounts = containers.flat_map(|one| json_items(&one["volumeMounts"]));
    let mount = mounts.find(is_at_folder)?;
    let volume = json_items(&pod["volumes"]).find(|volume| volume["name"] == mount["name"])?;
    volume["secret"]["secretName"].as_str()
}

/// Checks a mounted certificate. `secret` is the Secret of the volume.
pub(crate) fn check_mounted(
    mounted: &MountedCertificate<'_>,
    secret: &SeenObject,
    now: Timestamp,
) -> DoctorFinding {
    let MountedCertificate { flags, file, .. } = mounted;
    let Some(name) = mounted.secret else {
        let text = format!(
            "the certificate of {} is that of {} {}, and not that of a mounted Secret",
            flags.server, flags.folder, mounted.folder
        );
        let advice = "the metric steersman_certificate_not_after_timestamp_seconds of the operator says when it expires";
        return DoctorFinding::unknown(text, advice);
    };
    let name = format!("Secret {name}, with the certificate of {}", flags.server);
    let secret = match secret {
        Ok(Some(secret)) => secret,
        Ok(None) => return DoctorFinding::problem(format!("{name}, is missing"), RENEW),
        Err(unseen) => return unseen.finding(&name),
    };
    let secret: Secret = serde_json::from_value(secret.clone()).unwrap_or_default();
    let chain = secret.data.unwrap_or_default();
    let times = chain
        .get(*file)
        .and_then(|chain| CertificateTimes::of_pem(&chain.0));
    let Some(times) = times else {
        return DoctorFinding::problem(format!("{name}: {file} holds no certificate"), RENEW);
    };
    match times.state(now) {
        CertificateState::Valid => {
            DoctorFinding::good(format!("{name}: it is valid until {}", times.not_after))
        }
        state @ (CertificateState::NotYetValid(_)
        | CertificateState::ExpiresSoon(_)
        | CertificateState::Expired(_)) => {
            DoctorFinding::problem(format!("{name}: {state}"), RENEW)
        }
    }
}

/// Checks the certificate of the kubeconfig's user. Returns `None` if it is valid.
pub(crate) fn check_client(
    certificate: &ClientCertificate,
    now: Timestamp,
) -> Option<DoctorFinding> {
    let state = CertificateTimes::of_pem(&certificate.chain)?.state(now);
    let text = format!("the client certificate of {}: {state}", certificate.place);
    let advice = "renew the credentials in the kubeconfig";
    (state != CertificateState::Valid).then(|| DoctorFinding::problem(text, advice))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use rcgen::{CertificateParams, KeyPair};
    use serde_json::json;

    use super::*;
    use crate::doctor::finding::{FindingLevel, Unseen};

    fn deployment() -> Value {
        json!({"spec": {"template": {"spec": {
            "containers": [{
                "args": ["--webhook-cert-path=/certs/", "--metrics-cert-path", "/metrics", "--metrics-cert-name=chain.pem"],
                "volumeMounts": [
                    {"name": "metrics", "mountPath": "/metrics"}, {"name": "hooks", "mountPath": "/certs"},
                ],
            }],
            "volumes": [
                {"name": "hooks", "secret": {"secretName": "hooks-tls"}}, {"name": "metrics", "csi": {}},
            ],
        }}}})
    }

    /// Returns a certificate chain that is valid in the year 2026.
    fn chain() -> String {
        let mut params = CertificateParams::new(vec!["hooks".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2026, 1, 1);
        params.not_after = rcgen::date_time_ymd(2027, 1, 1);
        let certificate = params.self_signed(&KeyPair::generate().unwrap());
        certificate.unwrap().pem()
    }

    #[test]
    fn the_secret_of_a_mounted_certificate_is_found() {
        let deployment = deployment();
        let found = mounted_certificates(&deployment);
        let secrets: Vec<_> = found.iter().map(|one| (one.secret, one.file)).collect();
        assert_eq!(
            secrets,
            [(Some("hooks-tls"), "tls.crt"), (None, "chain.pem")]
        );
        assert!(mounted_certificates(&json!({})).is_empty());
    }

    #[test]
    fn a_certificate_is_checked_at_the_present_time() {
        let deployment = deployment();
        let found = mounted_certificates(&deployment);
        let check = |secret: SeenObject, now: &str| {
            let finding = check_mounted(&found[0], &secret, now.parse().unwrap());
            (finding.level, finding.text)
        };
        let chain = ByteString(chain().into_bytes());
        let secret = json!({"data": {"tls.crt": chain}});
        for (now, level, text) in [
            (
                "2025-12-01T00:00:00Z",
                FindingLevel::Problem,
                "not valid before 2026-01-01",
            ),
            (
                "2026-06-01T00:00:00Z",
                FindingLevel::Good,
                "valid until 2027-01-01",
            ),
            (
                "2026-12-20T00:00:00Z",
                FindingLevel::Problem,
                "expires at 2027-01-01",
            ),
            (
                "2027-02-01T00:00:00Z",
                FindingLevel::Problem,
                "expired at 2027-01-01",
            ),
        ] {
            let (found, said) = check(Ok(Some(secret.clone())), now);
            assert_eq!(found, level, "{said}");
            assert!(said.contains(text) && said.contains("hooks-tls"), "{said}");
        }
        let now = "2026-06-01T00:00:00Z";
        for (secret, level, text) in [
            (Ok(None), FindingLevel::Problem, "is missing"),
            (
                Ok(Some(json!({}))),
                FindingLevel::Problem,
                "tls.crt holds no certificate",
            ),
            (
                Err(Unseen::forbidden("403")),
                FindingLevel::Unknown,
                "hooks-tls",
            ),
        ] {
            let (found, said) = check(secret, now);
            assert_eq!(found, level, "{said}");
            assert!(said.contains(text), "{said}");
        }
        let of_csi = check_mounted(&found[1], &Ok(None), now.parse().unwrap());
        assert_eq!(of_csi.level, FindingLevel::Unknown);
        assert!(
            of_csi.text.contains("the metrics server"),
            "{}",
            of_csi.text
        );
    }
    #[test]
    fn an_expired_client_certificate_is_a_finding() {
        let certificate = ClientCertificate {
            place: "client.crt".to_owned(),
            chain: chain().into_bytes(),
        };
        let check = |now: &str| check_client(&certificate, now.parse().unwrap());
        assert!(check("2026-06-01T00:00:00Z").is_none());
        let found = check("2027-02-01T00:00:00Z").unwrap();
        assert_eq!(found.level, FindingLevel::Problem);
        let text = &found.text;
        assert!(
            text.contains("client.crt: the certificate expired at 2027-01-01"),
            "{text}"
        );
    }
}
