//! The client of the API.

use pebble_autoscaler::PebbleApi;
use tokio::net::TcpListener;

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

#[tokio::test]
async fn an_https_url_is_called_over_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let api = PebbleApi::new(&format!("https://{}", listener.local_addr().unwrap()), "token").unwrap();
    let call = tokio::spawn(async move { api.types().await });
    let (connection, _) = tokio::select! {
        accepted = listener.accept() => accepted.unwrap(),
        answer = call => panic!("without a connection: {answer:?}"),
    };
    let mut first = [0];
    connection.peek(&mut first).await.unwrap();
    assert_eq!(first, [HANDSHAKE]);
}
