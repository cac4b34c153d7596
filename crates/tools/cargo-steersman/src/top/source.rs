//! Driver: reads the debug page of an operator, at an address or through the API server.

use std::time::Duration;

use http::header::{AUTHORIZATION, COOKIE};
use http::{Request, Uri};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use steersman_api::kube_client::{self, Client, Config};
use steersman_api::{Api, Decoded, Paging};
use steersman_object::{LabelSelector, ListOptions, ObjectKey, json_text};
use tokio::time::timeout;

use crate::command_line::TopArgs;
use crate::error::Error;
use crate::kubeconfig;
use crate::project::Project;

/// The debug page of one replica of an operator.
pub(super) struct PageSource {
    client: Client,
    /// The address of the page without its last slash, or its path below the address of the API server.
    page: String,
    /// The header with the token. The API server passes no `Authorization` header on, but cookies.
    token: Option<(http::HeaderName, String)>,
}

/// The time limit of a request.
const LIMIT: Duration = Duration::from_secs(10);

/// How long the token for the page is valid, in seconds: the shortest time that a server accepts.
const TOKEN_SECONDS: u64 = 600;

impl PageSource {
    pub(super) async fn find(args: &TopArgs) -> Result<Self, Error> {
        match &args.address {
            Some(address) => Self::at(address, args),
            None => Self::in_cluster(args).await,
        }
    }

    fn at(address: &str, args: &TopArgs) -> Result<Self, Error> {
        let wrong = |problem: String| Error::DebugPage {
            page: address.to_owned(),
            problem,
        };
        let uri: Uri = address.parse().map_err(|_| {
            wrong(
                "it is no address such as http://127.0.0.1:8080 or https://127.0.0.1:8443"
                    .to_owned(),
            )
        })?;
        let mut config = Config::new(uri);
        // The operator signs its certificate itself.
        config.accept_invalid_certs = true;
        let client = Client::try_from(config).map_err(|error| wrong(error.to_string()))?;
        let token = match &args.token_path {
            Some(path) => {
                let token = std::fs::read_to_string(path)
                    .map_err(|error| wrong(format!("the token {}: {error}", path.display())))?;
                Some((AUTHORIZATION, format!("Bearer {}", token.trim())))
            }
            None => None,
        };
        Ok(Self {
            client,
            page: "/debug".to_owned(),
            token,
        })
    }

    /// Finds a Pod of the operator in the current folder, and gets a token of its ServiceAccount.
    async fn in_cluster(args: &TopArgs) -> Result<Self, Error> {
        let name = match &args.name {
            Some(name) => name.clone(),
            None => Project::find()?.name,
        };
        let namespace = args
            .namespace
            .clone()
            .unwrap_or_else(|| format!("{name}-system"));
        let config = kubeconfig::find(args.context.as_deref())
            .await
            .map_err(Error::Connect)?;
        let client = config.connect().await.map_err(Error::Connect)?;
        let pod = match &args.pod {
            Some(pod) => pod.clone(),
            None => ready_pod(&client, &namespace, &name).await?,
        };
        let account = args.account.as_ref().unwrap_or(&name);
        let token = token_of(&client, &namespace, account).await?;
        let port = args.port;
        Ok(Self {
            client,
            page: format!("/api/v1/namespaces/{namespace}/pods/https:{pod}:{port}/proxy/debug"),
            token: Some((COOKIE, format!("steersman-token={token}"))),
        })
    }

    /// Returns the overview of the page.
    pub(super) async fn overview(&self) -> Result<Value, Error> {
        let path = format!("{}/api/overview?limit=40", self.page);
        let mut request = Request::get(&path);
        if let Some((name, value)) = &self.token {
            request = request.header(name, value);
        }
        let wrong = |problem: String| Error::DebugPage {
            page: path.clone(),
            problem,
        };
        let request = request
            .body(Vec::new())
            .map_err(|error| wrong(error.to_string()))?;
        send(&self.client, request).await.map_err(wrong)
    }
}

/// Returns the name of the first ready Pod of an operator.
async fn ready_pod(client: &Client, namespace: &str, name: &str) -> Result<String, Error> {
    let labels = LabelSelector::label("app.kubernetes.io/name", name);
    let selected = ListOptions::new().namespace(namespace).labels(labels);
    let pods = Api::<Pod>::typed(client.clone());
    let wrong = |problem: String| Error::DebugPage {
        page: format!("of {name} in namespace {namespace}"),
        problem,
    };
    let listed = timeout(LIMIT, pods.list_all(&selected, &Paging::new())).await;
    let listed = listed.map_err(|_| wrong("the API server does not answer".to_owned()))?;
    let listed = listed.map_err(|error| wrong(error.to_string()))?;
    let mut pods = listed.items.into_iter().filter_map(|item| match item {
        Decoded::Good(pod) => Some(pod),
        Decoded::Malformed(_) => None,
    });
    let found = pods.find(is_ready).and_then(|pod| pod.metadata.name);
    found.ok_or_else(|| {
        wrong(format!(
            "no Pod with the label app.kubernetes.io/name={name} is ready there: name another --namespace, or a --pod"
        ))
    })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|one| one.type_ == "Ready" && one.status == "True")
}

/// Asks for a token of a ServiceAccount.
async fn token_of(client: &Client, namespace: &str, account: &str) -> Result<String, Error> {
    let key = ObjectKey::namespaced(namespace, account);
    let wrong = |problem: String| Error::DebugPage {
        page: format!("with a token of the ServiceAccount {key}"),
        problem,
    };
    let asked = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS, "audiences": []},
    });
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(asked.to_string().into_bytes());
    let request = request.map_err(|error| wrong(error.to_string()))?;
    let answer = send(client, request).await.map_err(wrong)?;
    Ok(json_text(&answer["status"]["token"]).to_owned())
}

/// Sends a request, and returns the JSON of the response; or what is wrong.
async fn send(client: &Client, request: Request<Vec<u8>>) -> Result<Value, String> {
    let answer = timeout(LIMIT, client.request_text(request)).await;
    let answer = answer.map_err(|_| "no answer within 10 s".to_owned())?;
    let text = answer.map_err(|error| match &error {
        kube_client::Error::Api(status) if status.code == 404 => {
            "it has no debug page: start the operator with --debug-page".to_owned()
        }
        kube_client::Error::Api(status) if status.code == 401 => {
            "it does not know the client: name the file of a token with --token-path".to_owned()
        }
        kube_client::Error::Api(status) if status.code == 403 => {
            "the user of the token may not read it: it needs the verb get for the nonResourceURLs /debug/*".to_owned()
        }
        error => error.to_string(),
    })?;
    serde_json::from_str(&text).map_err(|error| format!("the response is no JSON: {error}"))
}
