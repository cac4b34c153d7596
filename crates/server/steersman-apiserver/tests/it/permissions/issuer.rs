//! Tests of the issuer of ServiceAccounts' tokens: its keys, its metadata, and tokens over HTTPS.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::Request;
use jiff::Timestamp;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
    RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Authorization, Error, Serving, User};

use crate::support::{ask, get, merge, post, server};

const METADATA: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/bot/token";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
/// An RSA key that was made for tests.
const RSA: &str = include_str!("../../../../steersman-auth/testdata/keys/rsa-pkcs1.pem");
/// Where the clock of these tests starts, in seconds.
const START: i64 = 1_767_225_600;

/// Creates a ServiceAccount `bot`.
fn with_bot(server: ApiServer) -> ApiServer {
    let bot =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "bot" } });
    server.create(bot).unwrap();
    server
}

/// Returns a client of the listener with a token; without one, an anonymous client.
async fn client(serving: &Serving, token: Option<&str>) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(&serving.kubeconfig()).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    config.auth_info.token = token.map(|token| token.to_owned().into());
    Client::try_from(config).unwrap()
}

/// Sends a request, and returns the answer, or the status code of the refusal.
async fn send(client: &Client, method: &str, path: &str, body: &Value) -> Result<Value, u16> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let answer = client.request_text(request.body(body).unwrap()).await;
    match answer {
        Ok(text) => Ok(serde_json::from_str(&text).unwrap()),
        Err(kube_client::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{error}"),
    }
}

fn decoded(part: &str) -> Value {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

/// Verifies a token with the key of a key set that its header names, and returns its claims.
fn verified(token: &str, keys: &Value) -> Value {
    let (text, signature) = token.rsplit_once('.').unwrap();
    let (header, claims) = text.split_once('.').unwrap();
    let header = decoded(header);
    let mut keys = keys["keys"].as_array().unwrap().iter();
    let key = keys.find(|key| key["kid"] == header["kid"]).unwrap();
    assert_eq!(key["alg"], header["alg"]);
    let bytes = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let checked = match key["alg"].as_str().unwrap() {
        "RS256" => {
            let (n, e) = (bytes("n"), bytes("e"));
            let key = RsaPublicKeyComponents { n, e };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, text.as_bytes(), &signature)
        }
        "ES256" => {
            let point = [vec![4], bytes("x"), bytes("y")].concat();
            let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
            key.verify(text.as_bytes(), &signature)
        }
        "EdDSA" => {
            let key = UnparsedPublicKey::new(&ring::signature::ED25519, bytes("x"));
            key.verify(text.as_bytes(), &signature)
        }
        other => panic!("{other}"),
    };
    checked.unwrap();
    decoded(claims)
}

/// AUTH-8, AUTH-9: the whole life of a token over HTTPS, with both kinds of keys.
#[tokio::test]
async fn the_key_set_verifies_a_token_that_is_accepted_until_it_expires() {
    let ec = rcgen::KeyPair::generate().unwrap().serialize_pem();
    for (pem, algorithm) in [(ec.as_str(), "ES256"), (RSA, "RS256")] {
        let time = Arc::new(AtomicI64::new(START));
        let clock = Arc::clone(&time);
        let server = ApiServer::builder()
            .authorization(Authorization::Rbac)
            .clock(move || Timestamp::from_second(clock.load(Ordering::SeqCst)).unwrap())
            .service_account_issuer("https://127.0.0.1:1/")
            .service_account_issuer("https://old.example.com")
            .service_account_signing_key(pem)
            .build();
        let server = with_bot(server);
        let serving = server.serve("127.0.0.1:0").await.unwrap();
        let admin = client(&serving, Some(&server.add_user(User::admin()))).await;
        let request = json!({ "spec": { "expirationSeconds": 600 } });
        let made = send(&admin, "POST", TOKEN, &request).await.unwrap();
        let audiences = json!(["https://127.0.0.1:1/", "https://old.example.com"]);
        assert_eq!(made["spec"]["audiences"], audiences);
        let token = made["status"]["token"].as_str().unwrap();
        let bot = client(&serving, Some(token)).await;

        // A ServiceAccount may read the documents of the issuer, an anonymous user may not.
        let metadata = send(&bot, "GET", METADATA, &json!(null)).await.unwrap();
        let anonymous = client(&serving, None).await;
        for path in [METADATA, KEYS] {
            let refused = send(&anonymous, "GET", path, &json!(null)).await;
            assert_eq!(refused, Err(403));
        }
        let expected = json!({
            "issuer": "https://127.0.0.1:1/",
            "jwks_uri": format!("{}{KEYS}", serving.url()),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [algorithm],
        });
        assert_eq!(metadata, expected);
        let keys = send(&bot, "GET", KEYS, &json!(null)).await.unwrap();
        let claims = verified(token, &keys);
        assert_eq!(claims["iss"], "https://127.0.0.1:1/");
        assert_eq!(claims["aud"], audiences);
        assert_eq!(claims["sub"], "system:serviceaccount:default:bot");
        assert_eq!(claims["exp"], START + 600);
        assert_eq!(claims["nbf"], START);
        assert_eq!(claims["kubernetes.io"]["serviceaccount"]["name"], "bot");

        let selves = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
        let own = send(&bot, "POST", selves, &json!({})).await.unwrap();
        let user = &own["status"]["userInfo"]["username"];
        assert_eq!(user, "system:serviceaccount:default:bot");
        let review = |audiences: Value| {
            let review = json!({ "spec": { "token": token, "audiences": audiences } });
            let admin = &admin;
            async move {
                let answer = send(admin, "POST", REVIEWS, &review).await.unwrap();
                answer["status"].clone()
            }
        };
        let known = review(json!(["other", "https://old.example.com"])).await;
        assert_eq!(known["authenticated"], true);
        assert_eq!(known["audiences"], json!(["https://old.example.com"]));
        let wrong = review(json!(["other"])).await;
        assert_eq!(wrong.get("authenticated"), None);
        assert_eq!(
            wrong["error"],
            "[invalid bearer token, token audiences [\"https://127.0.0.1:1/\" \
             \"https://old.example.com\"] is invalid for the target audiences [\"other\"]]"
        );

        // Clocks may differ by a minute.
        time.store(START + 660, Ordering::SeqCst);
        assert_eq!(review(json!([])).await["authenticated"], true);
        time.store(START + 661, Ordering::SeqCst);
        let late = review(json!([])).await;
        assert_eq!(
            late["error"],
            "[invalid bearer token, service account token has expired]"
        );
        assert_eq!(send(&bot, "POST", selves, &json!({})).await, Err(401));
    }
}

/// AUTH-9
#[tokio::test(start_paused = true)]
async fn the_documents_of_the_issuer_are_answered_as_by_kube_apiserver() {
    let server = with_bot(server());
    let keys = get(&server, KEYS).await;
    assert_eq!(keys.header("content-type"), "application/jwk-set+json");
    assert_eq!(keys.header("cache-control"), "public, max-age=3600");
    // Without a configured key the server signs with one that its seed determines.
    let made = post(&server, TOKEN, &json!({})).await.expect(201);
    let claims = verified(made["status"]["token"].as_str().unwrap(), &keys.expect(200));
    assert_eq!(claims["iss"], "https://kubernetes.default.svc");
    let metadata = get(&server, METADATA).await;
    assert_eq!(metadata.header("content-type"), "application/json");
    assert_eq!(metadata.header("cache-control"), "public, max-age=3600");
    assert_eq!(
        metadata.expect(200)["id_token_signing_alg_values_supported"],
        json!(["EdDSA"])
    );
    let root = get(&server, "/").await.expect(200);
    for path in [METADATA, KEYS] {
        assert!(root["paths"].as_array().unwrap().contains(&json!(path)));
        assert_eq!(ask(&server, "POST", path, &[], "").await.status, 405);
    }
    let headers = [("accept", "application/json")];
    let refused = ask(&server, "GET", KEYS, &headers, "").await;
    assert_eq!(refused.status, 406);

    let server = ApiServer::builder()
        .service_account_issuer("kubernetes/serviceaccount")
        .build();
    let root = get(&server, "/").await.expect(200);
    for path in [METADATA, KEYS] {
        let absent = get(&server, path).await;
        assert_eq!(absent.status, 404);
        assert_eq!(absent.text, "404 page not found\n");
        assert!(!root["paths"].as_array().unwrap().contains(&json!(path)));
    }
}

/// Signs a token with the key of the tests, as kube-controller-manager does.
fn signed(claims: &Value) -> String {
    let lines = RSA.lines().filter(|line| !line.starts_with("-----"));
    let key = STANDARD.decode(lines.collect::<String>()).unwrap();
    let key = RsaKeyPair::from_der(&key).unwrap();
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let text = format!("{}.{}", part(&json!({"alg": "RS256"})), part(claims));
    let mut signature = vec![0; key.public().modulus_len()];
    let random = SystemRandom::new();
    key.sign(&RSA_PKCS1_SHA256, &random, text.as_bytes(), &mut signature)
        .unwrap();
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[tokio::test(start_paused = true)]
async fn a_request_and_a_review_note_the_use_of_a_token_in_its_secret() {
    let secrets = "/api/v1/namespaces/default/secrets";
    let server = ApiServer::builder()
        .service_account_signing_key(RSA)
        .starts_at("2026-01-01T00:00:00Z".parse().unwrap())
        .build();
    let server = with_bot(server);
    let bot = server.get("serviceaccounts", "default", "bot").unwrap();
    let token = signed(&json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:default:bot",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "bot-token",
        "kubernetes.io/serviceaccount/service-account.name": "bot",
        "kubernetes.io/serviceaccount/service-account.uid": bot["metadata"]["uid"],
    }));
    let secret = json!({
        "metadata": {"name": "bot-token",
            "annotations": {"kubernetes.io/service-account.name": "bot"}},
        "type": "kubernetes.io/service-account-token",
        "data": {"token": STANDARD.encode(&token)},
    });
    post(&server, secrets, &secret).await.expect(201);
    let label = "kubernetes.io/legacy-token-last-used";
    let path = format!("{secrets}/bot-token");
    // Without a request, which would write what an earlier one left.
    let last = || {
        let secret = server.get("secrets", "default", "bot-token").unwrap();
        secret["metadata"]["labels"][label].clone()
    };
    assert_eq!(last(), Value::Null);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let reads = ask(&server, "GET", &path, &headers, "").await;
    reads.expect(200);
    assert_eq!(last(), "2026-01-01");
    let forgotten = json!({"metadata": {"labels": {label: null}}});
    merge(&server, &path, &forgotten).await.expect(200);
    let review = json!({"spec": {"token": token}});
    let known = post(&server, REVIEWS, &review).await.expect(201);
    assert_eq!(known["status"]["authenticated"], true);
    assert_eq!(last(), "2026-01-01");
}

#[tokio::test]
async fn a_server_with_an_option_that_it_cannot_use_does_not_listen() {
    let builder = ApiServer::builder;
    for (builder, why) in [
        (
            builder().service_account_signing_key("nonsense"),
            "the option service_account_signing_key cannot be used: the PEM text has no private \
             key; give a section PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY",
        ),
        (
            builder().service_account_keys("nonsense"),
            "the option service_account_keys cannot be used: the PEM text has no key; give public \
             keys, certificates or private keys",
        ),
        (
            builder().service_cluster_ip_range("10.0.0.0"),
            "the option service_cluster_ip_range cannot be used: \"10.0.0.0\" is no network; write \
             an address and a prefix, such as 10.96.0.0/16",
        ),
    ] {
        let server = with_bot(builder.build());
        let error = server.serve("127.0.0.1:0").await.unwrap_err();
        assert!(matches!(error, Error::Option { .. }), "{error}");
        assert_eq!(error.source().unwrap().to_string(), why);
        if why.contains("service_account") {
            let refused = post(&server, TOKEN, &json!({})).await.expect(500);
            let message = format!("failed to generate token: {why}");
            assert_eq!(refused["message"], message);
        }
    }
}
