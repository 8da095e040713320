//! The examples of AWS: an API server with our definitions takes them, and each gets a node on the EC2 catalogue.

use std::{path::PathBuf, sync::Arc};

use fleetwright_fake_kube::{Config, Server};
use serde_json::{Value, json};

use super::*;

fn paths() -> Vec<PathBuf> {
    let paths = scenarios::files("examples/aws");
    assert!(paths.len() >= 8, "{paths:?}");
    paths
}

fn objects(path: PathBuf) -> Vec<Value> {
    input::read(&[path]).unwrap().into_iter().map(|item| item.value).collect()
}

/// An API server that applies schemas and CEL rules of the definitions for AWS.
fn server() -> Server {
    let server = Server::new(Config::new(Arc::new(|| Timestamp::UNIX_EPOCH), 7));
    for definition in fleetwright_aws_api::crd::crds() {
        let mut value = serde_json::to_value(&definition).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        server.apply(value).unwrap();
    }
    server
}

#[test]
fn an_api_server_takes_the_examples_of_aws() {
    let server = server();
    for path in paths() {
        let name = path.display().to_string();
        let objects = objects(path);
        assert_eq!(objects.len(), 3, "{name}: a class, a pool and a pod");
        for mut object in objects {
            if object["kind"] == "Pod" {
                object["metadata"]["namespace"] = json!("default");
            }
            server.apply(object.clone()).unwrap_or_else(|error| panic!("{name}: {error}"));
            // The rules are on: without a role the same class is refused.
            if object["kind"] == "EC2NodeClass" {
                object["metadata"]["name"] = json!("without-role");
                object["spec"].as_object_mut().unwrap().remove("role");
                let refused = server.apply(object).unwrap_err().to_string();
                assert!(refused.contains("must specify exactly one of"), "{refused}");
            }
        }
    }
}

#[test]
fn every_example_of_aws_gets_a_node() {
    let mut all = String::new();
    for path in paths() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let report = report_with(&path, "--region us-east-1");
        assert!(
            report.contains("1 new node for 1 pod,") && report.contains("0 unschedulable"),
            "{name}: {report}"
        );
        all += &format!("=== {name}\n{report}\n");
    }
    scenarios::check_file("tests/scenarios/examples-aws.txt", &all);
}
