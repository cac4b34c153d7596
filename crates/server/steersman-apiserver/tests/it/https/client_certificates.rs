//! Tests of client certificates over HTTPS, with and without tokens (AUTH-10).

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, PublicKeyData as _, SigningKey as _, date_time_ymd,
};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SignatureScheme, SupportedProtocolVersion};
use serde_json::{Value, json};
use steersman_apiserver::{ApiServer, Serving, User};
use tokio::net::TcpStream;
use x509_parser::prelude::{FromDer as _, X509Certificate};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// A certificate and its key.
struct Made {
    der: CertificateDer<'static>,
    key: KeyPair,
}

/// A client that presents one certificate, whatever the server asks for.
#[derive(Debug)]
struct Presents(Option<Arc<CertifiedKey>>);

impl ResolvesClientCert for Presents {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.clone()
    }

    fn has_certs(&self) -> bool {
        self.0.is_some()
    }
}

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    if !name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, name);
    }
    params
}

fn signed(params: &CertificateParams, by: &Authority) -> Made {
    let key = KeyPair::generate().unwrap();
    let der = params.signed_by(&key, by).unwrap().der().clone();
    Made { der, key }
}

/// Encodes a value of ASN.1 with a length of at most two bytes.
fn encode(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&[tag, 0x82], &length[..], content].concat()
}

/// Issues a certificate of X.509 version 1, which has no extensions, as `openssl x509 -req` does.
fn version_1(name: &str, by: &Authority) -> Made {
    const ECDSA_WITH_SHA256: &[u8] = b"\x30\x0a\x06\x08\x2a\x86\x48\xce\x3d\x04\x03\x02";
    let Made { der, key } = signed(&params(name), by);
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let validity = [
        encode(0x17, b"200101000000Z"),
        encode(0x17, b"490101000000Z"),
    ]
    .concat();
    let content = [
        &encode(0x02, parsed.raw_serial())[..],
        ECDSA_WITH_SHA256,
        parsed.issuer().as_raw(),
        &encode(0x30, &validity),
        parsed.subject().as_raw(),
        &key.subject_public_key_info(),
    ];
    let content = encode(0x30, &content.concat());
    let signature = [vec![0], by.key().sign(&content).unwrap()].concat();
    let whole = [&content, ECDSA_WITH_SHA256, &encode(0x03, &signature)].concat();
    let der = CertificateDer::from(encode(0x30, &whole));
    Made { der, key }
}

/// Asks the server over TLS 1.3 who the client is.
async fn who(
    serving: &Serving,
    presented: Option<&Made>,
    authorization: Option<&str>,
) -> Result<String, StatusCode> {
    who_over(&TLS13, serving, presented, authorization).await
}

/// Asks the server over a version of TLS who the client is. Returns the name of the user, or the code of a refusal.
async fn who_over(
    version: &'static SupportedProtocolVersion,
    serving: &Serving,
    presented: Option<&Made>,
    authorization: Option<&str>,
) -> Result<String, StatusCode> {
    let provider = rustls::crypto::ring::default_provider();
    let presented = presented.map(|made| {
        let key = PrivateKeyDer::Pkcs8(made.key.serialize_der().into());
        let key = provider.key_provider.load_private_key(key).unwrap();
        Arc::new(CertifiedKey::new(vec![made.der.clone()], key))
    });
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(serving.ca_pem().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(Presents(presented)));
    let socket = TcpStream::connect(serving.addr()).await.unwrap();
    let name = ServerName::from(serving.addr().ip());
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, socket).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("host", "localhost")
        .header("content-type", "application/json");
    if let Some(authorization) = authorization {
        request = request.header("authorization", authorization);
    }
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let request = request.body(Full::new(Bytes::from(review.to_string())));
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    let status = answer.status();
    if status != StatusCode::CREATED {
        return Err(status);
    }
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    Ok(review["status"]["userInfo"]["username"]
        .as_str()
        .unwrap()
        .to_owned())
}

// AUTH-10.
#[tokio::test]
async fn a_request_is_that_of_its_certificate_then_that_of_its_token() {
    let (own, foreign) = (authority("own"), authority("foreign"));
    let server = ApiServer::builder().client_authorities(own.pem()).build();
    let token = format!("Bearer {}", server.add_user(User::new("bob")));
    let serving = server.serve("127.0.0.1:0").await.unwrap();

    let mut expired = params("ann");
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    let mut for_servers = params("ann");
    for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let ann = signed(&params("ann"), &own);
    let refused = [
        signed(&params("ann"), &foreign),
        signed(&expired, &own),
        signed(&for_servers, &own),
        version_1("old", &foreign),
    ];
    let nameless = signed(&params(""), &own);
    let old = version_1("old", &own);
    let (bearer, wrong) = (Some(token.as_str()), Some("Bearer wrong"));

    let as_user = |name: &str| Ok(name.to_owned());
    for authorization in [None, bearer, wrong, Some("Basic YTpi")] {
        assert_eq!(
            who(&serving, Some(&ann), authorization).await,
            as_user("ann")
        );
        assert_eq!(
            who(&serving, Some(&old), authorization).await,
            as_user("old")
        );
    }
    for presented in &refused {
        for authorization in [None, wrong, Some("Basic YTpi")] {
            let asked = who(&serving, Some(presented), authorization).await;
            assert_eq!(asked, Err(StatusCode::UNAUTHORIZED), "{authorization:?}");
        }
        assert_eq!(who(&serving, Some(presented), bearer).await, as_user("bob"));
    }
    for (presented, name) in [(&ann, "ann"), (&old, "old")] {
        let asked = who_over(&TLS12, &serving, Some(presented), None).await;
        assert_eq!(asked, as_user(name));
    }
    for presented in &refused {
        let asked = who_over(&TLS12, &serving, Some(presented), None).await;
        assert_eq!(asked, Err(StatusCode::UNAUTHORIZED));
    }
    for presented in [None, Some(&nameless)] {
        for authorization in [None, Some("Basic YTpi")] {
            let asked = who(&serving, presented, authorization).await;
            assert_eq!(asked, as_user("system:anonymous"));
        }
        assert_eq!(who(&serving, presented, bearer).await, as_user("bob"));
        let asked = who(&serving, presented, wrong).await;
        assert_eq!(asked, Err(StatusCode::UNAUTHORIZED));
    }
}

// A certificate of a server without authorities means nothing.
#[tokio::test]
async fn without_authorities_certificates_are_not_asked_for() {
    let server = ApiServer::new();
    let serving = server.serve("127.0.0.1:0").await.unwrap();
    let foreign = signed(&params("ann"), &authority("foreign"));
    let asked = who(&serving, Some(&foreign), None).await;
    assert_eq!(asked, Ok("system:anonymous".to_owned()));
}
