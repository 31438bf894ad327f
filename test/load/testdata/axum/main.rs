//! A server of axum with the paths and the output of server.py: counts of requests, bodies and connections.
use axum::{body::Body, extract::{ConnectInfo, Request, State}, http::{Method, Response}, Router};
use futures_util::{stream, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Counts {
    requests: u64,
    body: u64,
    statuses: BTreeMap<u16, u64>,
    peers: BTreeSet<SocketAddr>,
}

async fn answer(State(counts): State<Arc<Mutex<Counts>>>, ConnectInfo(peer): ConnectInfo<SocketAddr>, request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut size = 0;
    let mut parts = body.into_data_stream();
    while let Some(Ok(part)) = parts.next().await {
        size += part.len() as u64;
    }
    let path = head.uri.path();
    let status = if path == "/gone" { 410 } else { 200 };
    {
        let mut c = counts.lock().unwrap();
        c.requests += 1;
        c.body += size;
        *c.statuses.entry(status).or_default() += 1;
        c.peers.insert(peer);
    }
    let mut response = Response::builder().status(status);
    if path != "/parts" {
        response = response.header("content-length", "5");
    }
    let parts: &[&str] = if head.method == Method::HEAD { &[] } else { &["hel", "l", "o"] };
    response.body(Body::from_stream(stream::iter(parts.iter().map(|p| Ok::<_, std::io::Error>(p.to_string()))))).unwrap()
}

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().collect();
    let counts = Arc::new(Mutex::new(Counts::default()));
    let app = Router::new().fallback(answer).with_state(counts.clone()).into_make_service_with_connect_info::<SocketAddr>();
    let listener = tokio::net::TcpListener::bind(format!("{}:{}", args[1], args[2])).await.unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
    let c = counts.lock().unwrap();
    let statuses: Vec<String> = c.statuses.iter().map(|(status, n)| format!("\"{status}\": {n}")).collect();
    println!("{{\"requests\": {}, \"body\": {}, \"statuses\": {{{}}}, \"connections\": {}}}", c.requests, c.body, statuses.join(", "), c.peers.len());
}
