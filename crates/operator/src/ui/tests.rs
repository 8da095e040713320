//! Hostile text ends nothing and runs nothing; the policies allow these parts alone; the endpoint only reads.

use fleetwright_controllers::runtime::decisions::DecisionQuery;
use fleetwright_core::{model::Currency, testing::now};
use fleetwright_sim::{Simulator, SimulatorConfig, simulator::virtual_runtime};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{document::FleetPage, *};
use crate::{fleet::FleetReport, scenarios};

/// What would run, or end an element, where it is taken for markup.
const HOSTILE: [&str; 5] = [
    "</script><script>window.owned=1</script>",
    "<img src=x onerror=window.owned=1>",
    "<!--<script>",
    "\"><svg onload=window.owned=1>",
    "]]>&lt;b&gt;\u{2028}\u{2029}",
];
/// What no output may have.
const SECRET: &str = "hunter2-planted";

fn empty() -> FleetReport {
    FleetReport {
        version: 1,
        currency: Currency::EUR,
        taken_at: now(),
        totals: Default::default(),
        nodes: Vec::new(),
        node_claims: Vec::new(),
        pending: Vec::new(),
        disruptions: Vec::new(),
        node_pools: Vec::new(),
        catalogues: Vec::new(),
        notes: Vec::new(),
        incomplete: Vec::new(),
    }
}

/// The text between two marks.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let (_, rest) = text.split_once(from).unwrap_or_else(|| panic!("no {from}"));
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

#[test]
fn hostile_text_stays_text_in_a_report() {
    let mut fleet = empty();
    fleet.notes = HOSTILE.map(str::to_owned).to_vec();
    let page = FleetPage::new(HOSTILE[0], fleet);
    let file = html::report(&page).unwrap();
    let data = between(&file, "id=\"data\">", "</script>");
    assert!(!data.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{data}");
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), serde_json::to_value(&page).unwrap());
    // The data, the script; nothing else begins or ends one.
    assert_eq!(file.matches("<script").count(), 2);
    assert_eq!(file.matches("</script").count(), 2);
    for text in HOSTILE {
        assert!(!file.contains(text), "{text}");
    }
}

#[test]
fn a_report_allows_its_own_script_and_style_by_their_digests() {
    use aws_lc_rs::digest::{SHA256, digest};
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let file = html::report(&FleetPage::new("x", empty())).unwrap();
    let policy = between(&file, "http-equiv=\"Content-Security-Policy\" content=\"", "\">");
    assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{policy}");
    for (part, directive) in [
        (between(&file, "<script type=\"module\">", "</script>"), "script-src"),
        (between(&file, "<style>", "</style>"), "style-src"),
    ] {
        let expected =
            format!("{directive} 'sha256-{}'", BASE64_STANDARD.encode(digest(&SHA256, part.as_bytes())));
        assert!(policy.contains(&expected), "{policy}\n{expected}");
    }
    assert!(!file.contains("src=") && !file.contains("<link"), "a report loads nothing");
}

/// Everything that parses text as markup or code, or leaves the page.
#[test]
fn the_script_never_parses_markup_and_names_no_other_host() {
    let wanted = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "DOMParser",
        "setHTML",
        "srcdoc",
        "javascript:",
        "createContextualFragment",
        "import(",
        "https://",
        "//cdn",
        "localStorage",
        "cookie",
    ];
    for (name, text) in [("script", html::SCRIPT), ("style", html::STYLE), ("markup", &html::endpoint())] {
        for word in wanted {
            assert!(!text.contains(word), "{name} has {word}");
        }
        let hosts = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!hosts.contains("http://"), "{name} names another host");
    }
    for sign in ["$$", "\"$ ", "$/", "`$ "] {
        assert!(!html::SCRIPT.contains(sign), "the script writes the sign of a currency: {sign}");
    }
    let handlers = regex::Regex::new(r"\son[a-z]+\s*=").unwrap();
    assert!(!handlers.is_match(&html::endpoint()), "a handler in the markup");
    assert!(!html::SCRIPT.contains("</") && !html::STYLE.contains("</"), "a part ends its element");
}

async fn get(address: std::net::SocketAddr, method: &str, path: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

#[tokio::test]
async fn the_endpoint_only_reads_and_sends_its_policy_with_every_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes(|| None)).await });
    for (path, status, kind) in [
        ("/ui", "200", "text/html"),
        ("/ui/page.js", "200", "text/javascript"),
        ("/ui/style.css", "200", "text/css"),
        ("/ui/fleet.json", "503", "text/plain"),
        ("/ui/nodes/some-node/pods", "503", "text/plain"),
        ("/ui/decisions", "503", "text/plain"),
    ] {
        let (head, _) = get(address, "GET", path).await;
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{path}: {head}");
        assert!(head.contains(&format!("content-type: {kind}")), "{path}: {head}");
        for wanted in [
            "default-src 'none'",
            "script-src 'self'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
        ] {
            assert!(head.contains(wanted), "{path}: {wanted}: {head}");
        }
        assert!(head.contains("x-content-type-options: nosniff"), "{path}: {head}");
        for method in ["POST", "PUT", "PATCH", "DELETE"] {
            let (head, _) = get(address, method, path).await;
            assert!(head.starts_with("http/1.1 405 "), "{method} {path}: {head}");
        }
    }
    let (_, body) = get(address, "GET", "/ui").await;
    for part in ["ui/page.js", "ui/style.css"] {
        assert!(body.contains(&format!("\"{part}\"")), "{body}");
    }
}

/// What a controller serves has its nodes, the cost over time and its decisions, and nothing of pods but what decisions read.
#[test]
fn the_data_of_a_controller_has_no_secrets() {
    let (data, pods, decisions) = virtual_runtime().unwrap().block_on(async {
        let simulator = Simulator::new(SimulatorConfig::new(1, now())).await.unwrap();
        for object in [include_str!("../../demo/nodepool.yaml").to_owned(), planted()] {
            simulator.apply(&object).unwrap();
        }
        simulator.run_for(std::time::Duration::from_secs(90)).await;
        let ctx = simulator.controllers().unwrap();
        let costs = std::sync::Mutex::default();
        endpoint::add_sample(ctx, &costs);
        let data = endpoint::describe(ctx, &costs).unwrap();
        let snapshot = ctx.cluster.index().snapshot(now());
        let pods = endpoint::pods_of(ctx, snapshot.nodes[0].name()).unwrap();
        assert_eq!(endpoint::pods_of(ctx, "another"), None);
        let decisions = ctx.decisions.ring().lock().read(&DecisionQuery::default());
        let decisions = serde_json::to_string(&decisions).unwrap();
        (String::from_utf8(data).unwrap(), String::from_utf8(pods).unwrap(), decisions)
    });
    for output in [&data, &pods, &decisions] {
        assert!(!output.contains(SECRET), "{output}");
    }
    // A plan, the pod that it cannot place, and a NodeClaim.
    for expected in ["default/web", "default/huge", r#""kind":"nodeClaim""#] {
        assert!(decisions.contains(expected), "{expected}: {decisions}");
    }
    let pods: Value = serde_json::from_str(&pods).unwrap();
    assert_eq!((&pods["total"], &pods["pods"][0]["pod"]), (&1.into(), &"default/web".into()), "{pods}");
    assert_eq!(
        pods["pods"][0]["requests"][0],
        serde_json::json!({"resource": "cpu", "used": 1000, "allocatable": 0})
    );
    let data: Value = serde_json::from_str(&data).unwrap();
    assert_eq!(data["fleet"]["nodes"].as_array().unwrap().len(), 1, "{data}");
    let pools = data["fleet"]["nodePools"].as_array().unwrap();
    assert_eq!(pools.iter().filter_map(|pool| pool["nodes"].as_u64()).sum::<u64>(), 1, "{data}");
    assert_eq!(data["costs"][0]["hourly"], data["fleet"]["totals"]["hourly"]);
    // The funnel of the pod that no instance type holds.
    let steps = data["funnels"][0]["funnels"][0]["steps"].as_array().unwrap();
    assert_eq!(steps.last().unwrap()["left"], 0, "{data}");
}

/// Two pods with a secret in environment, arguments and annotations; no instance type holds the second one.
fn planted() -> String {
    let pod = |name: &str, cpu: u32| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, annotations: {{note: {SECRET}}}}}\nspec:\n  containers:\n  \
             - name: c\n    image: {SECRET}\n    args: [{SECRET}]\n    env: [{{name: PASSWORD, value: {SECRET}}}]\n    resources: {{requests: {{cpu: {cpu}}}}}\n"
        )
    };
    format!("{}---\n{}", pod("web", 1), pod("huge", 900_000))
}

#[test]
fn the_schema_in_docs_is_that_of_the_page() {
    scenarios::check_schema::<FleetPage>("report.schema.json");
}
