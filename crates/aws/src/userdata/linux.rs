//! Amazon Linux 2: a shell script that calls EKS' bootstrap, as the last part of a MIME archive.

use std::net::IpAddr;

use super::mime::{self, Part, SHELL};
use super::{Bootstrap, UserDataError, dns, kubelet_flags};

pub(super) fn render(bootstrap: &Bootstrap<'_>) -> Result<String, UserDataError> {
    let mut parts = match bootstrap.custom {
        None | Some("") => Vec::new(),
        Some(text) if mime::is_archive(text) => mime::read(text)?,
        Some(text) => vec![Part::new(SHELL, text.replace('\r', ""))],
    };
    parts.push(Part::new(SHELL, script(bootstrap)));
    Ok(mime::write(&parts))
}

/// The script takes its parameters without equal signs.
fn script(bootstrap: &Bootstrap<'_>) -> String {
    let Bootstrap { cluster_name, endpoint, ca_bundle, .. } = bootstrap;
    let mut text = "#!/bin/bash -xe\n\
                    exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1\n"
        .to_owned();
    text.push_str(&format!("/etc/eks/bootstrap.sh '{cluster_name}' --apiserver-endpoint '{endpoint}' "));
    if !ca_bundle.is_empty() {
        text.push_str(&format!("--b64-cluster-ca '{ca_bundle}'"));
    }
    let mut next = |argument: &str| {
        text.push_str(" \\\n");
        text.push_str(argument);
    };
    if dns(bootstrap)
        .and_then(|address| address.parse().ok())
        .is_some_and(|address: IpAddr| address.is_ipv6())
    {
        next("--ip-family ipv6");
    }
    if let Some(address) = dns(bootstrap) {
        next(&format!("--dns-cluster-ip '{address}'"));
    }
    if bootstrap.parsed.max_pods_count().is_some() {
        next("--use-max-pods false");
    }
    next(&format!("--kubelet-extra-args '{}'", kubelet_flags(bootstrap).join(" ")));
    if bootstrap.raid0 {
        next("--local-disks raid0");
    }
    text
}
