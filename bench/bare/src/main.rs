//! The least that a gateway of softland's HTTP libraries can do: each request goes on to the upstream
//! and its response comes back, as they are. What softland costs beyond this is its own.
//!
//! ```sh
//! softland-bench-bare PORT UPSTREAM
//! ```

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};

use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let mut args = std::env::args().skip(1);
    let mut next = || args.next().ok_or("usage: softland-bench-bare PORT UPSTREAM");
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, next()?.parse()?));
    let upstream: Authority = next()?.parse()?;
    // As many threads as softland has: on one core the only one.
    let alone = std::thread::available_parallelism()?.get() == 1;
    let mut builder =
        if alone { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.enable_all().build()?;
    runtime.block_on(serve(at, upstream))
}

async fn serve(at: SocketAddr, upstream: Authority) -> Result<(), Failed> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let listener = TcpListener::bind(at).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(talk(stream, client.clone(), upstream.clone()));
    }
}

async fn talk(stream: TcpStream, client: Client<HttpConnector, Incoming>, upstream: Authority) {
    let service = service_fn(|request| pass(&client, &upstream, request));
    // A client that goes is no matter here.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn pass(
    client: &Client<HttpConnector, Incoming>,
    upstream: &Authority,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>, Failed> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(upstream.clone());
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(client.request(request).await?)
}
