//! The errors of broken configurations.

use tempfile::TempDir;

use super::*;

const WHOLE: &str = r#"
apiVersion: v1
kind: Config
current-context: one
contexts:
- name: one
  context: {cluster: here, user: me, namespace: web}
clusters:
- name: here
  cluster: {server: "https://127.0.0.1:6443"}
users:
- name: me
  user: {token: t}
"#;

fn file(dir: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn kubeconfig(value: impl Into<OsString>) -> Environment {
    Environment {
        kubeconfig: Some(value.into()),
        ..Environment::default()
    }
}

async fn problem(content: &str) -> String {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "config", content);
    let error = find(&kubeconfig(&path), &ConfigChoice::new())
        .await
        .unwrap_err();
    assert!(error.is_config() && !error.is_no_config());
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("kubeconfig {}", path.display())),
        "{text}"
    );
    assert!(!text.contains('\n'), "{text}");
    text
}

#[tokio::test]
async fn a_complete_kubeconfig_is_accepted() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "config", WHOLE);
    let FoundConfig {
        config,
        credentials,
        context,
        names_namespace,
    } = find(&kubeconfig(&path), &ConfigChoice::new())
        .await
        .unwrap();
    assert_eq!(
        credentials,
        format!("the user \"me\" in kubeconfig {}", path.display())
    );
    assert_eq!(config.default_namespace, "web");
    assert_eq!(context.as_deref(), Some("one"));
    assert!(names_namespace);
    assert_eq!(config.cluster_url.to_string(), "https://127.0.0.1:6443/");
}

#[tokio::test]
async fn a_context_without_a_namespace_names_none() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "config", &WHOLE.replace(", namespace: web", ""));
    let found = find(&kubeconfig(&path), &ConfigChoice::new()).await;
    let found = found.unwrap();
    assert!(!found.names_namespace);
    assert_eq!(found.config.default_namespace, "default");
}

#[tokio::test]
async fn a_missing_configuration_is_an_error_of_its_own() {
    let dir = TempDir::new().unwrap();
    for environment in [
        Environment::default(),
        kubeconfig(""),
        Environment {
            home: Some(dir.path().to_owned()),
            ..Environment::default()
        },
    ] {
        let error = find(&environment, &ConfigChoice::new()).await.unwrap_err();
        assert!(error.is_no_config(), "{error}");
        assert!(error.to_string().contains("KUBECONFIG"), "{error}");
    }
}

#[tokio::test]
async fn the_default_file_is_used_without_the_variable() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join(".kube")).unwrap();
    file(&dir, ".kube/config", WHOLE);
    let environment = Environment {
        home: Some(dir.path().to_owned()),
        // Without its token, the service account cannot be used.
        service_host: Some("10.0.0.1".into()),
        service_account: dir.path().to_owned(),
        ..Environment::default()
    };
    assert_eq!(
        find(&environment, &ConfigChoice::new())
            .await
            .unwrap()
            .config
            .default_namespace,
        "web"
    );
}

#[tokio::test]
async fn a_mounted_service_account_goes_before_the_default_file() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join(".kube")).unwrap();
    file(&dir, ".kube/config", WHOLE);
    file(&dir, "token", "t");
    let pod = Environment {
        home: Some(dir.path().to_owned()),
        service_host: Some("10.0.0.1".into()),
        service_account: dir.path().to_owned(),
        ..Environment::default()
    };
    // The service account is incomplete without the port, which the error names.
    let error = find(&pod, &ConfigChoice::new()).await.unwrap_err();
    assert!(error.to_string().contains("service account"), "{error}");
    // Only a kubeconfig has contexts.
    let chosen = ConfigChoice::new().context("one");
    let found = find(&pod, &chosen).await.unwrap();
    assert_eq!(found.config.default_namespace, "web");
}

#[tokio::test]
async fn a_chosen_context_replaces_the_current_one() {
    let dir = TempDir::new().unwrap();
    let two = WHOLE.replace(
        "contexts:\n",
        "contexts:\n- name: two\n  context: {cluster: here, user: me, namespace: shop}\n",
    );
    let path = file(&dir, "config", &two);
    let elsewhere = kubeconfig("nowhere");
    let choice = ConfigChoice::new().kubeconfig(&path);
    let found = find(&elsewhere, &choice.clone().context("two"))
        .await
        .unwrap();
    assert_eq!(found.config.default_namespace, "shop");
    let error = find(&elsewhere, &choice.context("three"))
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("chosen context \"three\" is not one of its contexts (there are: two, one)"),
        "{text}"
    );
}

#[tokio::test]
async fn a_pod_without_its_service_account_names_the_missing_part() {
    let dir = TempDir::new().unwrap();
    let pod = |port: Option<&str>| Environment {
        service_host: Some("10.0.0.1".into()),
        service_port: port.map(OsString::from),
        service_account: dir.path().to_owned(),
        ..Environment::default()
    };
    let said = async |port: Option<&str>, parts: &[&str]| {
        let error = find(&pod(port), &ConfigChoice::new()).await.unwrap_err();
        assert!(error.is_config(), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with("the service account of this pod: "),
            "{text}"
        );
        for part in parts {
            assert!(text.contains(part), "{part:?} is not in: {text}");
        }
    };
    let remedy = ["KUBERNETES_SERVICE_PORT is not", "KUBECONFIG"];
    said(None, &remedy).await;
    said(Some(""), &remedy).await;
    said(Some("http"), &["KUBERNETES_SERVICE_PORT is \"http\""]).await;
    for name in ["token", "ca.crt", "namespace"] {
        let missing = dir.path().join(name);
        let remedy = [
            missing.to_str().unwrap(),
            "automountServiceAccountToken",
            "KUBECONFIG",
        ];
        said(Some("443"), &remedy).await;
        file(&dir, name, "x");
    }
}

#[tokio::test]
async fn the_proxy_of_a_cluster_goes_before_the_variables_and_those_have_exceptions() {
    let dir = TempDir::new().unwrap();
    let proxied = WHOLE.replace(
        "server:",
        "proxy-url: \"http://me:hunter2@proxy:3128\", server:",
    );
    let remote = |text: &str| text.replace("127.0.0.1", "10.0.0.1");
    let variables = |name: &str| match name {
        "HTTPS_PROXY" => Some("http://other:3128".to_owned()),
        "NO_PROXY" => Some("10.0.0.0/8".to_owned()),
        _ => None,
    };
    let only_proxy = |name: &str| variables(name).filter(|_| name != "NO_PROXY");
    let of = async |text: &str, proxies: ProxyVariables| {
        let path = file(&dir, "config", text);
        let mut environment = kubeconfig(&path);
        environment.proxies = proxies;
        let found = find(&environment, &ConfigChoice::new()).await;
        found.map(|found| found.config.proxy_url.map(|proxy| proxy.to_string()))
    };
    let both = ProxyVariables::read(variables);
    let named = of(&remote(&proxied), both.clone()).await.unwrap();
    assert_eq!(named.as_deref(), Some("http://me:hunter2@proxy:3128/"));
    assert_eq!(of(&remote(WHOLE), both).await.unwrap(), None);
    let proxy = ProxyVariables::read(only_proxy);
    let chosen = of(&remote(WHOLE), proxy.clone()).await.unwrap();
    assert_eq!(chosen.as_deref(), Some("http://other:3128/"));
    assert_eq!(of(WHOLE, proxy.clone()).await.unwrap(), None);

    let socks = proxied.replace("http://me", "socks5://me");
    let text = of(&socks, proxy).await.unwrap_err().to_string();
    let explained = text.contains("proxy-url") && text.contains("socks5");
    assert!(explained && !text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn a_missing_file_is_named() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("gone");
    let error = find(&kubeconfig(&path), &ConfigChoice::new())
        .await
        .unwrap_err();
    assert!(error.is_config() && !error.is_no_config(), "{error}");
    assert!(
        error.to_string().contains("gone: there is no such file"),
        "{error}"
    );
    // Of several files, only the existing files are read.
    let there = file(&dir, "config", WHOLE);
    let both = std::env::join_paths([&path, &there]).unwrap();
    assert_eq!(
        find(&kubeconfig(both), &ConfigChoice::new())
            .await
            .unwrap()
            .config
            .default_namespace,
        "web"
    );
}

#[tokio::test]
async fn each_missing_entry_is_named_with_the_existing_ones() {
    for (from, to, says) in [
        ("current-context: one", "", "no current-context is set"),
        (
            "current-context: one",
            "current-context: two",
            "\"two\" is not one of its contexts (there are: one)",
        ),
        (
            "- name: here",
            "- name: there",
            "the cluster \"here\", which has no entry (there are: there)",
        ),
        (
            "- name: me",
            "- name: you",
            "the user \"me\", which has no entry (there are: you)",
        ),
        (
            "server: \"https://127.0.0.1:6443\"",
            "",
            "cluster url is missing",
        ),
        ("\"https://127.0.0.1:6443\"", "\"::not a url\"", "url"),
        (
            "server:",
            "certificate-authority: /no/such/ca.crt, server:",
            "the certificate authority /no/such/ca.crt cannot be read",
        ),
        (
            "server:",
            "certificate-authority-data: '*', server:",
            "is not base64",
        ),
    ] {
        let text = problem(&WHOLE.replace(from, to)).await;
        assert!(text.contains(says), "{text}");
    }
    for content in ["{", "contexts: 7", "a: [", "\u{0}", ": : not yaml ["] {
        let text = problem(content).await;
        assert!(text.contains(": the file is not a kubeconfig: "), "{text}");
        // The text omits the parser's hints for authors of Rust types.
        assert!(
            !text.contains("Option<") && !text.contains("error: "),
            "{text}"
        );
    }
    for content in ["", "\n# nothing\n", "{}", "apiVersion: v1\nkind: Config\n"] {
        let text = problem(content).await;
        assert!(text.contains(": it is empty: "), "{text}");
    }
    let text = problem(&WHOLE.replace("current-context: one", "")).await;
    assert!(text.contains("(of contexts, there are: one)"), "{text}");
}
