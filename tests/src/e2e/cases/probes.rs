//! Probes and metrics over IPv4 and IPv6: in an IPv6 cluster kubelet and Prometheus have no other way.

use std::net::{Ipv6Addr, TcpListener};

use crate::e2e::case::Cx;

pub(super) async fn run(cx: &mut Cx<'_>) -> anyhow::Result<()> {
    // Some build hosts have no IPv6 at all; there the operator has only IPv4.
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let hosts: &[&str] = if has_ipv6 { &["127.0.0.1", "[::1]"] } else { &["127.0.0.1"] };
    for host in hosts {
        let operator = &cx.world.operator;
        let probes = ["/healthz", "/readyz"].map(|path| operator.probe_url(host, path));
        for url in probes.into_iter().chain([operator.url(host, "/metrics")]) {
            let answer = reqwest::get(&url).await;
            let answered = answer.as_ref().is_ok_and(|answer| answer.status().is_success());
            cx.check(format!("{url} answers: {answer:?}"), answered)?;
        }
    }
    Ok(())
}
