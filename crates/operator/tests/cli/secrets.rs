//! A secret in environment, arguments, images, annotations and Secrets of the input is in no output of any tool.

use std::{fs, path::Path, thread};

use super::process::{from_root, run_words};

const SECRET: &str = "hunter2-planted";

/// The calls, with `IN` for the planted input. What a format adds is the same document: one of each kind is enough.
const CALLS: [&str; 22] = [
    "plan -f IN --budget 2it -o json",
    "plan -f IN --budget 2it -o wide",
    "plan -f IN --budget 2it -o markdown --what-if IN",
    "disrupt -f IN -o json",
    "disrupt -f IN -o csv",
    "explain pod shop/web-1 -f IN --budget 2it -o json",
    "explain pod shop/train-0 -f IN --budget 2it -o json",
    "explain pod shop/db-0 -f IN --budget 2it -o wide",
    "explain node busy -f IN -o json",
    "explain type c-8x-amd64-linux -f IN --budget 2it -o json",
    "explain nodepool default -f IN --budget 2it -o json",
    "lint -f IN -o text",
    "lint -f IN -o json",
    "lint -f IN -o sarif",
    "lint -f IN -o github",
    "top -f IN -o json",
    "top -f IN --once --size 300x80",
    "report -f IN --budget 2it -o json",
    "report -f IN --budget 2it -o /dev/stdout",
    "compat -f IN --budget 2it -o json",
    "dump -f IN",
    "dump -f IN --anonymize --key k",
];

/// The input of the golden outputs with the secret in every object.
fn planted(file: &Path) -> usize {
    let container = format!(
        "\"image\": \"{SECRET}\", \"args\": [\"{SECRET}\"], \"command\": [\"{SECRET}\"], \
         \"env\": [{{\"name\": \"PASSWORD\", \"value\": \"{SECRET}\"}}]"
    );
    let note = format!("\"example.com/note\": \"{SECRET}\"");
    let text = fs::read_to_string(from_root("tests/cli/cluster.yaml")).unwrap();
    let objects = text.lines().map(|line| {
        let line = line.replace("\"image\": \"i\"", &container);
        if line.contains("\"annotations\": {") {
            return line.replacen("\"annotations\": {", &format!("\"annotations\": {{{note}, "), 1);
        }
        line.replacen("\"metadata\": {", &format!("\"metadata\": {{\"annotations\": {{{note}}}, "), 1)
    });
    let mut text: String = objects.map(|line| line + "\n").collect();
    text += &format!(
        "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s, namespace: shop}}\nstringData: {{password: {SECRET}}}\n\
         ---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: shop}}\ndata: {{password: {SECRET}}}\n"
    );
    fs::write(file, &text).unwrap();
    text.matches(SECRET).count()
}

#[test]
fn no_output_has_what_no_decision_reads() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("planted.yaml");
    let count = planted(&file);
    assert!(count >= 11 + 4 * 4 + 2, "{count} places");
    let input = file.to_str().unwrap();
    let ended = thread::scope(|scope| {
        let calls = CALLS.map(|call| scope.spawn(move || run_words(&call.replace("IN", input))));
        calls.map(|call| call.join().unwrap())
    });
    // The search finds what is kept.
    assert!(ended[20].out.contains("shop/web") || ended[20].out.contains("web-1"), "{}", CALLS[20]);
    for (call, told) in CALLS.into_iter().zip(ended) {
        assert!([0, 4, 5].contains(&told.status) && !told.out.is_empty(), "{call}: {}", told.err);
        for (stream, text) in [("standard output", &told.out), ("standard error", &told.err)] {
            let line = text.lines().find(|line| line.contains(SECRET));
            assert_eq!(line, None, "fleetwright {call}: {stream}");
        }
    }
}
