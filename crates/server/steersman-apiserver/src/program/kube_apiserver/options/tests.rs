//! Tests of the options of kube-apiserver.

use std::ffi::OsString;

use super::*;

fn options(arguments: &[&str]) -> Result<KubeApiserverOptions, FlagProblem> {
    with(arguments, &[])
}

fn with(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<KubeApiserverOptions, FlagProblem> {
    let line = flags().parse(arguments.iter().map(OsString::from))?;
    KubeApiserverOptions::of(&line, |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn each_line_of_the_table_is_a_flag_with_a_note() {
    let lines = include_str!("../flags.txt").lines();
    let lines: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    let table = flags();
    assert_eq!(table.rows().len(), lines.len());
    assert!(table.rows().is_sorted_by_key(|row| row.name));
    assert!(table.rows().iter().all(|row| !row.note.is_empty()));
}

#[test]
fn the_flags_of_envtest_are_obeyed_without_a_warning() {
    let options = options(&[
        "--advertise-address=127.0.0.1",
        "--allow-privileged=true",
        "--authorization-mode=RBAC",
        "--bind-address=127.0.0.1",
        "--cert-dir=/tmp/c",
        "--client-ca-file=/tmp/c/client-cert-auth-ca.crt",
        "--disable-admission-plugins=ServiceAccount",
        "--etcd-servers=http://127.0.0.1:2379",
        "--secure-port=16443",
        "--service-account-issuer=https://127.0.0.1:16443/",
        "--service-account-key-file=/tmp/c/sa-signer.crt",
        "--service-account-signing-key-file=/tmp/c/sa-signer.key",
        "--service-cluster-ip-range=10.0.0.0/24",
    ])
    .unwrap();
    assert_eq!(options.address.to_string(), "127.0.0.1:16443");
    assert_eq!(options.etcd.as_deref(), Some("http://127.0.0.1:2379"));
    assert!(options.is_rbac && !options.service_account);
    assert_eq!(options.played, PlayedPart::Nothing);
    assert_eq!(options.warnings, [""; 0]);
}

#[test]
fn a_list_of_authorizers_allows_what_one_of_them_allows() {
    for (modes, is_rbac) in [
        ("RBAC", true),
        ("Node,RBAC", true),
        ("RBAC,AlwaysAllow", false),
        ("AlwaysAllow", false),
    ] {
        let argument = format!("--authorization-mode={modes}");
        assert_eq!(options(&[&argument]).unwrap().is_rbac, is_rbac, "{modes}");
    }
    assert!(!options(&[]).unwrap().is_rbac);
    for modes in ["Webhook,RBAC", "ABAC", "AlwaysDeny", "Node"] {
        let argument = format!("--authorization-mode={modes}");
        let problem = options(&[&argument]).unwrap_err().to_string();
        assert!(problem.starts_with("--authorization-mode="), "{problem}");
    }
}

#[test]
fn a_server_that_allows_everything_listens_on_loopback_by_default() {
    let address = |arguments: &[&str]| options(arguments).unwrap().address.to_string();
    assert_eq!(address(&[]), "127.0.0.1:6443");
    assert_eq!(address(&["--authorization-mode=RBAC"]), "0.0.0.0:6443");
    assert_eq!(address(&["--bind-address=::"]), "[::]:6443");
}

#[test]
fn what_would_change_answers_is_refused() {
    for argument in [
        "--etcd-prefix=/other",
        "--authentication-token-webhook-config-file=/tmp/x",
        "--authorization-webhook-config-file=/tmp/x",
        "--authentication-config=/tmp/x",
        "--encryption-provider-config=/tmp/x",
        "--egress-selector-config-file=/tmp/x",
        "--anonymous-auth=false",
        "--secure-port=0",
        "--secure-port=65536",
        "--bind-address=localhost",
        "--tls-cert-file=/tmp/x",
        "--tls-private-key-file=/tmp/x",
        "--http2-max-streams-per-connection=many",
        "--runtime-config=api/all=yes",
        "--insecure-port=8080",
    ] {
        let problem = options(&[argument]).unwrap_err().to_string();
        let flag = argument.split('=').next().unwrap();
        assert!(problem.contains(flag), "{problem}");
    }
}

#[test]
fn an_ignored_flag_gives_a_warning_that_names_it() {
    for argument in [
        "--feature-gates=AllAlpha=true",
        "--max-requests-inflight=1",
        "--delete-collection-workers=4",
        "-v=4",
        "--runtime-config=api/all=true",
        "--allow-privileged=false",
        "--advertise-address=10.1.2.3",
    ] {
        let warnings = options(&[argument]).unwrap().warnings;
        let flag = argument.trim_start_matches('-').split('=').next().unwrap();
        assert!(
            warnings[0].starts_with(&format!("--{flag}")),
            "{warnings:?}"
        );
        assert_eq!(warnings.len(), 1);
    }
}

#[test]
fn one_api_can_be_enabled() {
    let api = "--runtime-config=storagemigration.k8s.io/v1beta1";
    let options = options(&[api]).unwrap();
    assert!(options.migrates_storage && options.warnings.is_empty());
}

#[test]
fn the_environment_says_what_is_played() {
    for (value, part) in [
        ("", PlayedPart::Nothing),
        ("nothing", PlayedPart::Nothing),
        ("controllers", PlayedPart::Controllers),
        ("workloads", PlayedPart::Workloads),
    ] {
        let options = with(&[], &[("STEERSMAN_PLAY", value)]).unwrap();
        assert_eq!(options.played, part);
    }
    let faults = with(&[], &[("STEERSMAN_FAULTS", "f.json")]).unwrap();
    assert_eq!(faults.faults, Some(PathBuf::from("f.json")));
    let problem = with(&[], &[("STEERSMAN_PLAY", "all")]).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the environment variable STEERSMAN_PLAY=all is refused: use controllers, workloads or nothing"
    );
}

#[test]
fn the_environment_asks_for_the_page() {
    for (value, address) in [
        ("", None),
        ("0", None),
        ("1", Some("127.0.0.1:0")),
        ("hold", Some("127.0.0.1:0")),
        ("127.0.0.1:6480", Some("127.0.0.1:6480")),
    ] {
        let options = with(&[], &[("STEERSMAN_UI", value)]).unwrap();
        let printed = options.ui.map(|address| address.to_string());
        assert_eq!(printed.as_deref(), address, "{value}");
    }
    let problem = with(&[], &[("STEERSMAN_UI", "maybe")]).unwrap_err();
    assert_eq!(
        problem.to_string(),
        "the environment variable STEERSMAN_UI=maybe is refused: use 1, or an address such as 127.0.0.1:6480"
    );
}

#[test]
fn watches_end_after_one_and_a_half_times_the_minimum() {
    let options = options(&["--min-request-timeout=60", "--audit-log-path=-"]).unwrap();
    assert_eq!(options.watch_timeout, Some(Duration::from_secs(90)));
    assert_eq!(options.audit, Some(AuditTarget::StandardOutput));
}
