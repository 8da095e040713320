//! What clients make of the environment of their process: each test starts one with variables of its own.

use std::process::Stdio;
use std::sync::Arc;

use fleetwright_aws::calls::AwsApi as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs, pki_types};

use crate::SdkClient;
use crate::connect::tests::StoppedClock;

/// Certificate authorities, each with a server's certificate and key: for tests only, valid until 2125.
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/data/tls");
/// The variable that says which call the started process makes.
const CALL: &str = "FLEETWRIGHT_TEST_CALL";
/// The path of the role's keys at the portal of IAM Identity Center.
const ROLE_KEYS: &str = "/federation/credentials";

/// What the other tests start.
#[tokio::test]
#[ignore = "the other tests start it, each with an environment of its own"]
#[expect(clippy::disallowed_methods, reason = "its environment says what it is to do")]
async fn one_call() {
    let client = SdkClient::connect(false, Arc::new(StoppedClock)).await.unwrap();
    match &*std::env::var(CALL).unwrap() {
        "prices" => drop(client.on_demand_prices(client.region()).await.unwrap()),
        _ => drop(client.subnets(&[]).await.unwrap()),
    }
}

/// Makes a call in a process with no variables but these. The error is what it prints.
async fn call(name: &'static str, variables: &[(&str, &str)]) -> Result<(), String> {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "environment::one_call", "--ignored", "--nocapture"]);
    command.env_clear().env(CALL, name).env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(variables.iter().copied()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&printed).into_owned()) }
}

/// An access key of the environment.
const KEYS: [(&str, &str); 3] =
    [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "secret")];

/// A server on this host that notes what it is asked.
struct Noted {
    port: u16,
    requests: mpsc::UnboundedReceiver<String>,
}

impl Noted {
    /// Over TLS with the certificate called `name`, or without.
    async fn start(name: Option<&str>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (note, requests) = mpsc::unbounded_channel();
        let acceptor = name.map(acceptor);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve_securely(acceptor.clone(), connection, note.clone()));
            }
        });
        Self { port, requests }
    }

    /// What was asked so far.
    fn requests(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

fn acceptor(name: &str) -> TlsAcceptor {
    let read = |part: &str| std::fs::read(format!("{DATA}/{name}-{part}.der")).unwrap();
    let key = pki_types::PrivatePkcs8KeyDer::from(read("server-key"));
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let config = config.with_single_cert(vec![read("server").into()], key.into()).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn serve_securely(
    acceptor: Option<TlsAcceptor>,
    connection: TcpStream,
    note: mpsc::UnboundedSender<String>,
) {
    match acceptor {
        None => serve(connection, note).await,
        // A client that does not trust the certificate ends the handshake.
        Some(acceptor) => {
            if let Ok(connection) = acceptor.accept(connection).await {
                serve(connection, note).await;
            }
        }
    }
}

/// Answers one request: no tunnels, the keys of a role, or no subnets.
async fn serve(mut connection: impl AsyncRead + AsyncWrite + Unpin, note: mpsc::UnboundedSender<String>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = connection.read_u8().await else { return };
        head.push(byte);
    }
    let head = String::from_utf8(head).unwrap();
    let (status, body) = match &head {
        head if head.starts_with("CONNECT ") => ("403 Forbidden", ""),
        head if head.contains(ROLE_KEYS) => (
            "200 OK",
            r#"{"roleCredentials":{"accessKeyId":"AKIDSSO","secretAccessKey":"s","sessionToken":"t","expiration":4102444800000}}"#,
        ),
        _ => ("200 OK", "<DescribeSubnetsResponse><subnetSet/></DescribeSubnetsResponse>"),
    };
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    note.send(head).unwrap();
    // A client that asked enough may be gone.
    let _ = connection.write_all(answer.as_bytes()).await;
    let _ = connection.shutdown().await;
}

/// The access key that signed a request.
fn signed_by(request: &str) -> Option<&str> {
    request.split_once("Credential=")?.1.split('/').next()
}

/// The authorities of a bundle are trusted beside those of the system, and in no other's place.
#[tokio::test]
async fn a_bundle_is_trusted_beside_the_authorities_of_the_system() {
    let (bundle, system) = (format!("{DATA}/bundle-ca.pem"), format!("{DATA}/system-ca.pem"));
    for (server, given, trusted) in [
        ("bundle", Some(&bundle), true),
        ("system", Some(&bundle), true),
        ("bundle", None, false),
        ("system", None, true),
    ] {
        let mut noted = Noted::start(Some(server)).await;
        let url = format!("https://localhost:{}", noted.port);
        let mut variables = KEYS.to_vec();
        variables.extend([("AWS_ENDPOINT_URL", &*url), ("SSL_CERT_FILE", &system)]);
        variables.extend(given.map(|path| ("AWS_CA_BUNDLE", &**path)));
        let answered = call("subnets", &variables).await;
        assert_eq!(answered.is_ok(), trusted, "{server} {given:?}: {answered:?}");
        assert_eq!(noted.requests().len(), usize::from(trusted), "{server} {given:?}");
    }
}

/// The variables of a profile in a new home directory.
fn profile(home: &std::path::Path, text: &str) -> [(&'static str, String); 3] {
    let file = home.join(".aws/config");
    std::fs::create_dir_all(home.join(".aws/sso/cache")).unwrap();
    std::fs::write(&file, text).unwrap();
    [
        ("HOME", home.to_str().unwrap().to_owned()),
        ("AWS_CONFIG_FILE", file.to_str().unwrap().to_owned()),
        ("AWS_PROFILE", "work".to_owned()),
    ]
}

/// The access key of a call with this profile.
async fn key_of(home: &std::path::Path, text: &str) -> Result<Vec<String>, String> {
    let mut noted = Noted::start(None).await;
    let url = format!("http://127.0.0.1:{}", noted.port);
    let of_profile = profile(home, text);
    let mut variables = vec![("AWS_ENDPOINT_URL", &*url)];
    variables.extend(of_profile.iter().map(|(name, value)| (*name, &**value)));
    call("subnets", &variables).await?;
    Ok(noted.requests().iter().filter_map(|request| signed_by(request)).map(str::to_owned).collect())
}

#[tokio::test]
async fn a_program_gives_the_keys_of_a_profile() {
    let home = tempfile::tempdir().unwrap();
    let script = home.path().join("keys.sh");
    let keys = r#"{"Version":1,"AccessKeyId":"AKIDPROGRAM","SecretAccessKey":"s"}"#;
    std::fs::write(&script, format!("echo '{keys}'\n")).unwrap();
    let script = script.to_str().unwrap();
    let text = format!("[profile work]\nregion = eu-west-1\ncredential_process = /bin/sh {script}\n");
    assert_eq!(key_of(home.path(), &text).await.unwrap(), ["AKIDPROGRAM"]);
}

/// The token of a session stands where `aws sso login` leaves it.
#[tokio::test]
async fn a_login_by_sso_gives_the_keys_of_a_profile() {
    let home = tempfile::tempdir().unwrap();
    let text = "[profile work]\nregion = eu-west-1\nsso_session = fleetwright\n\
        sso_account_id = 111122223333\nsso_role_name = Admin\n\
        [sso-session fleetwright]\nsso_region = eu-west-1\nsso_start_url = https://d-1.awsapps.com/start\n";
    let refused = key_of(home.path(), text).await.unwrap_err();
    assert!(refused.contains("sso/cache"), "no login yet: {refused}");
    let token = r#"{"accessToken":"t","expiresAt":"2100-01-01T00:00:00Z","region":"eu-west-1",
        "startUrl":"https://d-1.awsapps.com/start"}"#;
    // The file is called after the SHA-1 of the session's name.
    let file = ".aws/sso/cache/e6bfa8777cb6eca82ad376040344f3d9ff46bb0a.json";
    std::fs::write(home.path().join(file), token).unwrap();
    assert_eq!(key_of(home.path(), text).await.unwrap(), ["AKIDSSO"]);
}

/// The price list has no FIPS endpoint: it is asked as always, while the other services are asked at theirs.
#[tokio::test]
async fn prices_are_not_asked_of_a_fips_endpoint() {
    for (name, host) in
        [("prices", "api.pricing.us-east-1.amazonaws.com"), ("subnets", "ec2-fips.us-east-1.amazonaws.com")]
    {
        let mut proxy = Noted::start(None).await;
        let url = format!("http://127.0.0.1:{}", proxy.port);
        let mut variables = KEYS.to_vec();
        variables.extend([("HTTPS_PROXY", &*url), ("AWS_USE_FIPS_ENDPOINT", "true")]);
        assert!(call(name, &variables).await.is_err(), "the proxy opens no tunnel");
        let asked = proxy.requests();
        let tunnel = format!("CONNECT {host}:443 ");
        assert!(!asked.is_empty() && asked.iter().all(|head| head.starts_with(&tunnel)), "{asked:?}");
    }
}
