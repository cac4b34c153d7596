//! Tests of flags that suites add, and of those that are refused.

use std::net::TcpListener;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::control_plane::{ControlPlane, client, free_ports, healthy};
use super::programs::{Process, Programs};
use super::{CONFIG_MAPS, config_map, get, post, refusal, until};
use crate::support::deployment;

fn texts(arguments: &[&str]) -> Vec<String> {
    arguments.iter().copied().map(str::to_owned).collect()
}

#[tokio::test]
async fn what_cannot_be_obeyed_is_refused_aloud() {
    let programs = Programs::new();
    for (program, arguments, said) in [
        (
            "kube-apiserver",
            &["--colour=red"][..],
            "kube-apiserver: unknown flag --colour; --help lists the flags\n",
        ),
        (
            "kube-apiserver",
            &["--etcd-prefix=/x"],
            "kube-apiserver: --etcd-prefix=/x is refused: an etcd of this program keeps the objects of one \
             server; leave it out, or use --etcd-prefix=/registry\n",
        ),
        (
            "kube-apiserver",
            &["--authentication-token-webhook-config-file=/x"],
            "kube-apiserver: --authentication-token-webhook-config-file is refused: no webhook \
             authenticates; use --token-auth-file\n",
        ),
        (
            "kube-apiserver",
            &["--etcd-servers=abc"],
            "kube-apiserver: --etcd-servers=abc is refused: it has no scheme; use http://, as in \
             http://127.0.0.1:2379\n",
        ),
        (
            "etcd",
            &["--cert-file=/x"],
            "etcd: --cert-file is refused: clients connect without TLS\n",
        ),
        (
            "etcd",
            &["put", "a"],
            "etcd: \"put\" is no flag; --help lists the flags\n",
        ),
    ] {
        assert_eq!(programs.refused(program, &texts(arguments)).await, said);
    }
    let real = TempDir::new().unwrap();
    std::fs::create_dir(real.path().join("member")).unwrap();
    let [port, ..] = free_ports();
    let url = format!("http://127.0.0.1:{port}");
    let arguments = [
        format!("--data-dir={}", real.path().display()),
        format!("--listen-client-urls={url}"),
    ];
    let said = programs.refused("etcd", &arguments).await;
    assert!(said.contains("holds the data of a real etcd"), "{said}");
    let etcd = format!("--etcd-servers={url}");
    let said = programs.refused("kube-apiserver", &[etcd]).await;
    let expected =
        format!("kube-apiserver: no etcd answers at {url} of --etcd-servers; start `etcd`");
    assert!(said.starts_with(&expected), "{said}");
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let programs = Programs::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", taken.local_addr().unwrap());
    let [free, ..] = free_ports();
    for flag in ["listen-client-urls", "listen-peer-urls"] {
        let arguments = [
            format!("--listen-client-urls=http://127.0.0.1:{free}"),
            format!("--{flag}={url}"),
        ];
        let said = programs.refused("etcd", &arguments).await;
        let expected = format!("etcd: cannot listen on {url} of --{flag}; choose another port: ");
        assert!(said.starts_with(&expected), "{said}");
    }
    let port = taken.local_addr().unwrap().port();
    let arguments = [format!("--secure-port={port}")];
    let said = programs.refused("kube-apiserver", &arguments).await;
    assert!(
        said.contains(&format!(
            "cannot listen on 127.0.0.1:{port} of --secure-port"
        )),
        "{said}"
    );
}

/// Starts a kube-apiserver with each of these lists of flags, which is refused with this text.
async fn are_refused(programs: &Programs, cases: Vec<(Vec<String>, String)>) {
    for (arguments, said) in cases {
        let [port, ..] = free_ports();
        let mut all = vec![format!("--secure-port={port}")];
        all.extend(arguments);
        let answer = programs.refused("kube-apiserver", &all).await;
        assert!(answer.contains(&said), "{answer}");
    }
}

#[tokio::test]
async fn a_file_in_pem_that_cannot_be_used_is_named_with_its_flag() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let file = |name: &str| folder.path().join(name);
    let path = |name: &str| file(name).display().to_string();
    let [one, other] = [(); 2].map(|()| rcgen::generate_simple_self_signed(Vec::new()).unwrap());
    std::fs::write(file("a.crt"), one.cert.pem()).unwrap();
    std::fs::write(file("a.der"), one.cert.der()).unwrap();
    std::fs::write(file("b.key"), other.signing_key.serialize_pem()).unwrap();
    let unusable = |name: &str, flag: &str, why: &str| {
        let flags = vec![format!("--{flag}={}", path(name))];
        (
            flags,
            format!("cannot use {} of --{flag}: {why}", path(name)),
        )
    };
    let no_pair = (
        vec![
            format!("--tls-cert-file={}", path("a.crt")),
            format!("--tls-private-key-file={}", path("b.key")),
        ],
        format!(
            "cannot serve with the certificate {} and the key {}",
            path("a.crt"),
            path("b.key")
        ),
    );
    let cases = vec![
        unusable("none", "client-ca-file", "No such file"),
        unusable("a.der", "client-ca-file", "it is DER"),
        unusable(
            "a.crt",
            "service-account-signing-key-file",
            "the PEM text has no private key",
        ),
        no_pair,
    ];
    are_refused(&programs, cases).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named_with_its_flag() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let path = |name: &str| folder.path().join(name).display().to_string();
    for name in ["half", "bad"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(&format!("{name}/apiserver.key")), "none").unwrap();
    }
    std::fs::write(path("bad/apiserver.crt"), "none").unwrap();
    let cases = vec![
        (
            vec!["--cert-dir=/proc/none".to_owned()],
            "cannot use /proc/none of --cert-dir: ".to_owned(),
        ),
        (
            vec![format!("--cert-dir={}", path("bad"))],
            format!(
                "cannot use {} of --cert-dir: it holds no certificate",
                path("bad/apiserver.crt")
            ),
        ),
        (
            vec![format!("--cert-dir={}", path("half"))],
            format!(
                "{} exists without {}",
                path("half/apiserver.key"),
                path("half/apiserver.crt")
            ),
        ),
        (
            vec![format!("--audit-log-path={}", path("half"))],
            format!("cannot use {} of --audit-log-path: ", path("half")),
        ),
    ];
    are_refused(&programs, cases).await;

    let etcd = ["--data-dir=/proc/none".to_owned()];
    let answer = programs.refused("etcd", &etcd).await;
    let said = "etcd: cannot use /proc/none of --data-dir: ";
    assert!(answer.starts_with(said), "{answer}");
    let mut command = programs.command("kube-apiserver", &[]);
    command.env("STEERSMAN_FAULTS", path("bad/apiserver.crt"));
    let output = command.output().await.unwrap();
    let answer = String::from_utf8(output.stderr).unwrap();
    assert!(
        answer.contains("apiserver.crt of STEERSMAN_FAULTS holds no faults"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_value_that_the_listener_refuses_is_named_with_its_flag() {
    let refused = |flag: &str, said: &str| (vec![flag.to_owned()], said.to_owned());
    let cases = vec![
        refused(
            "--bind-address=192.0.2.1",
            "of --bind-address; choose another address: ",
        ),
        refused(
            "--service-cluster-ip-range=10.0.0.0/33",
            "--service-cluster-ip-range is refused: \"10.0.0.0/33\" ",
        ),
        refused(
            "--service-account-issuer=",
            "--service-account-issuer is refused: a value is empty",
        ),
    ];
    are_refused(&Programs::new(), cases).await;
}

#[tokio::test]
async fn servers_that_start_at_once_share_the_certificate_of_their_folder() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let starts = (0..4).map(|_| alone(&programs, &folder, &[], &[]));
    let servers = futures::future::join_all(starts).await;
    for (mut process, admin) in servers {
        get(&admin, "/version").await.unwrap();
        assert!(process.stop().await.success());
    }
}

#[tokio::test]
async fn the_versions_are_those_of_the_answers() {
    let programs = Programs::new();
    let plane = ControlPlane::start(&programs, &[]).await;
    let admin = plane.user("default", &["system:masters"]);
    let version = get(&admin, "/version").await.unwrap();
    let output = programs
        .output("kube-apiserver", &texts(&["--version"]))
        .await;
    let printed = String::from_utf8(output.stdout).unwrap();
    let expected = version["gitVersion"].as_str().unwrap();
    assert_eq!(printed, format!("Kubernetes {expected}\n"));
    plane.stop().await;
}

#[tokio::test]
async fn tokens_of_a_file_name_users_and_requests_are_audited() {
    let (programs, files) = (Programs::new(), TempDir::new().unwrap());
    let (tokens, audit) = (
        files.path().join("tokens.csv"),
        files.path().join("logs/audit"),
    );
    std::fs::write(&tokens, "t1,ann,u1,\"system:masters\"\nt2,bob,u2\n").unwrap();
    let plane = ControlPlane::start(
        &programs,
        &[
            &format!("--token-auth-file={}", tokens.display()),
            &format!("--audit-log-path={}", audit.display()),
            "--feature-gates=AllAlpha=true",
        ],
    )
    .await;
    let created = post(&plane.bearer("t1"), CONFIG_MAPS, &config_map("a")).await;
    created.unwrap();
    refusal(get(&plane.bearer("t2"), CONFIG_MAPS).await, 403);
    refusal(get(&plane.bearer("t3"), CONFIG_MAPS).await, 401);
    let log = plane.server_log();
    assert!(
        log.contains("kube-apiserver: --feature-gates is ignored: "),
        "{log}"
    );
    plane.stop().await;

    let text = std::fs::read_to_string(&audit).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |user: &str| -> Vec<&Value> {
        let events = events.iter();
        events
            .filter(|event| event["user"]["username"] == user)
            .collect()
    };
    let [create] = of("ann")[..] else {
        panic!("{text}")
    };
    assert_eq!(create["apiVersion"], "audit.k8s.io/v1");
    assert_eq!(create["verb"], "create");
    assert_eq!(create["requestURI"], CONFIG_MAPS);
    assert_eq!(create["objectRef"]["name"], "a");
    assert_eq!(create["responseStatus"]["code"], 201);
    assert_eq!(of("bob")[0]["responseStatus"]["code"], 403);
    assert!(
        of("system:anonymous")
            .iter()
            .any(|one| one["requestURI"] == "/healthz")
    );
}

/// Starts a server without an etcd, and with variables.
async fn alone(
    programs: &Programs,
    folder: &TempDir,
    more: &[String],
    variables: &[(&str, &str)],
) -> (Process, kube_client::Client) {
    let [port, ..] = free_ports();
    let certificates = folder.path().join("certificates");
    let tokens = folder.path().join("tokens.csv");
    // Several servers may share the folder.
    if !tokens.exists() {
        std::fs::write(&tokens, "t1,ann,u1,system:masters\n").unwrap();
    }
    let mut arguments = vec![
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
        format!("--cert-dir={}", certificates.display()),
        format!("--token-auth-file={}", tokens.display()),
    ];
    arguments.extend_from_slice(more);
    let mut command = programs.command("kube-apiserver", &arguments);
    command.envs(variables.iter().copied());
    let mut process = Process::of(command, &folder.path().join("log"));
    // Written before the port is open.
    let certificate = certificates.join("apiserver.crt");
    while !certificate.exists() && !process.has_ended() {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let authority = std::fs::read_to_string(&certificate).unwrap();
    let client = client(port, &authority, &json!({"token": "t1"}));
    healthy(&mut process, &client, "/readyz").await.unwrap();
    (process, client)
}

#[tokio::test]
async fn a_certificate_is_generated_once_in_its_folder() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let (mut process, _) = alone(&programs, &folder, &[], &[]).await;
    assert!(process.stop().await.success());
    let log = process.log();
    assert!(log.contains("objects are kept in memory alone"), "{log}");
    let path = folder.path().join("certificates/apiserver.crt");
    let first = std::fs::read_to_string(&path).unwrap();
    let (mut process, _) = alone(&programs, &folder, &[], &[]).await;
    assert!(process.stop().await.success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
}

#[tokio::test]
async fn with_a_foreign_etcd_objects_are_kept_in_memory() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let real = tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        let _ = socket.read(&mut [0; 4096]).await.unwrap();
        let answer = "HTTP/1.1 404 Not Found\r\ncontent-length: 19\r\n\r\n404 page not found\n";
        socket.write_all(answer.as_bytes()).await.unwrap();
    });
    let etcd = format!("--etcd-servers={url}");
    let (mut process, admin) = alone(&programs, &folder, &[etcd], &[]).await;
    post(&admin, CONFIG_MAPS, &config_map("a")).await.unwrap();
    assert!(process.stop().await.success());
    real.await.unwrap();
    let log = process.log();
    let expected = format!(
        "kube-apiserver: objects are kept in memory alone, because {url} of --etcd-servers is no etcd of \
         this program (it answers 404 404 page not found)"
    );
    assert!(log.contains(&expected), "{log}");
}

#[tokio::test]
async fn variables_of_the_environment_play_workloads_and_plan_faults() {
    let (programs, folder) = (Programs::new(), TempDir::new().unwrap());
    let faults = folder.path().join("faults.json");
    let fault = json!({"verb": "list", "resource": "secrets", "times": 1,
        "effect": {"type": "answer", "code": 503, "message": "planned"}});
    std::fs::write(&faults, fault.to_string()).unwrap();
    let faults = faults.display().to_string();
    let variables = [
        ("STEERSMAN_PLAY", "workloads"),
        ("STEERSMAN_FAULTS", &faults),
    ];
    let (mut process, admin) = alone(&programs, &folder, &[], &variables).await;
    let message = refusal(get(&admin, "/api/v1/secrets").await, 503);
    assert_eq!(message, "planned");
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    post(&admin, deployments, &deployment("web")).await.unwrap();
    until(&admin, &format!("{deployments}/web"), |answer| {
        let found = answer
            .as_ref()
            .map(|found| found["status"]["readyReplicas"].clone());
        found.is_ok_and(|ready| ready == 2)
    })
    .await;
    assert!(process.stop().await.success());

    let variables = [("STEERSMAN_PLAY", "everything")];
    let mut command = programs.command("kube-apiserver", &[]);
    let output = command.envs(variables).output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("STEERSMAN_PLAY=everything is refused"),
        "{said}"
    );
}
