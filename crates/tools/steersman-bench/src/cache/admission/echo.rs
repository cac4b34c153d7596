//! Driver: measures an echo over TLS: the part of a review that no webhook can avoid.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::middle;
use crate::cache::apart::one_thread;
use crate::process::BenchResult;

/// The bytes that the API server sends for a review of a small ConfigMap, and those of the answer, as HTTP/1.1.
const REVIEW: usize = 900;
const ANSWER: usize = 380;

/// Returns the median time of an echo between two threads, in microseconds.
pub(super) async fn measure(times: u32) -> BenchResult<f64> {
    let (here, there) = (one_thread()?, one_thread()?);
    let (server, client) = sides()?;
    let listener = there
        .spawn(async { TcpListener::bind("127.0.0.1:0").await })
        .await??;
    let address = listener.local_addr()?;
    let answers = there.spawn(async move {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut stream = TlsAcceptor::from(server).accept(stream).await?;
        let mut review = [0; REVIEW];
        for _ in 0..times {
            stream.read_exact(&mut review).await?;
            stream.write_all(&[0; ANSWER]).await?;
            stream.flush().await?;
        }
        stream.shutdown().await
    });
    let asks = here.spawn(async move {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let mut stream = TlsConnector::from(client).connect(name, stream).await?;
        let (mut answer, mut taken) = ([0; ANSWER], Vec::<Duration>::new());
        for _ in 0..times {
            let begun = Instant::now();
            stream.write_all(&[0; REVIEW]).await?;
            stream.flush().await?;
            stream.read_exact(&mut answer).await?;
            taken.push(begun.elapsed());
        }
        Ok::<_, std::io::Error>(taken)
    });
    let taken = asks.await??;
    answers.await??;
    here.shutdown_background();
    there.shutdown_background();
    Ok(middle(&taken))
}

fn sides() -> BenchResult<(Arc<ServerConfig>, Arc<ClientConfig>)> {
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let certificate = own.cert.der().clone();
    let private = PrivateKeyDer::Pkcs8(own.signing_key.serialize_der().into());
    let server = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private)?;
    let mut roots = RootCertStore::empty();
    roots.add(certificate)?;
    let client = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok((Arc::new(server), Arc::new(client)))
}
