//! Handle: the listener of the server's page, on a thread of its own.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::site::Site;
use crate::error::Error;
use crate::server::{ApiServer, secret};

/// Pause of the listener after the operating system failed to accept a connection.
const REST: Duration = Duration::from_millis(50);

/// The page of a server, served over HTTP on loopback. Dropping it stops the listener and ends its connections.
#[derive(Debug)]
#[must_use = "dropping it stops the page"]
pub struct UiServing {
    address: SocketAddr,
    _stop: DropGuard,
}

impl ApiServer {
    /// Serves the page of this server over HTTP on a loopback address: the objects of each kind with the history of
    /// their revisions and the owners of their fields, the log of requests by client, and the planned faults. Port 0
    /// takes any free port.
    ///
    /// The page has its own thread and clock, so it answers while the tasks of a test hang, also on a paused clock. From
    /// now on the server records the time and the request of each retained revision, about 40 bytes for each. Every
    /// program that can connect to loopback reads all objects but the values of Secrets, and can plan faults.
    ///
    /// # Errors
    /// [`Error::Listen`] if the address cannot be used, [`Error::PageNotLoopback`] if other machines could reach it.
    pub fn serve_ui(&self, address: impl ToSocketAddrs + fmt::Debug) -> Result<UiServing, Error> {
        let described = format!("{address:?}");
        let listen = |source| Error::Listen {
            address: described.clone(),
            source,
        };
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(listen)?.collect();
        let mut exposed = addresses.iter().filter(|one| !one.ip().is_loopback());
        if let Some(address) = exposed.next() {
            return Err(Error::PageNotLoopback { address: *address });
        }
        let listener = StdListener::bind(addresses.as_slice()).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(listen)?;
        self.context().record_origins();
        let site = Arc::new(Site::new(Arc::clone(self.context()), secret()));
        let stop = self.stop_token().child_token();
        let until = stop.clone();
        let serve = move || runtime.block_on(run(listener, site, until));
        let thread = std::thread::Builder::new().name("steersman-ui".to_owned());
        thread.spawn(serve).map_err(listen)?;
        Ok(UiServing {
            address,
            _stop: stop.drop_guard(),
        })
    }
}

impl UiServing {
    /// Returns the address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://<address>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Accepts connections until `stop`. The connections end with the runtime of the thread.
async fn run(listener: StdListener, site: Arc<Site>, stop: CancellationToken) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let accepted: io::Result<(TcpStream, SocketAddr)> = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, _)) => {
                tokio::spawn(serve(socket, Arc::clone(&site)));
            }
            // Accepting fails for instance without free file descriptors, which other connections may release soon.
            Err(_) => tokio::time::sleep(REST).await,
        }
    }
}

async fn serve(socket: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request| {
        let site = Arc::clone(&site);
        async move { Ok::<_, Infallible>(site.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    let connection = builder
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(socket), service);
    // An error of the connection needs no report: the browser disconnected.
    let _ = connection.await;
}
