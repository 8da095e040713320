//! Processes end when they should, and an early end is noticed.

use std::collections::BTreeSet;

use super::*;

fn shell(logs: &Path, script: &str) -> Recipe {
    Recipe {
        name: "script",
        program: "/bin/sh".into(),
        args: vec!["-c".to_owned(), script.to_owned()],
        env: vec![("PATH", "/usr/bin:/bin".into())],
        logs: logs.to_path_buf(),
    }
}

#[tokio::test]
async fn an_early_end_is_an_error_that_shows_the_log() -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let mut process = shell(logs.path(), "echo no such flag; exit 3").start()?;
    process.child.wait().await?;
    let error = process.check_running().expect_err("the process has ended");
    let text = format!("{error:#}");
    assert!(text.contains("script ended by itself") && text.contains("no such flag"), "{text}");
    Ok(())
}

#[tokio::test]
async fn stop_asks_and_returns_the_exit_status() -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let recipe = shell(logs.path(), "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done");
    let mut process = recipe.start()?;
    // The log begins with the command, which has the word too.
    while tail(&recipe.log(), 1) != "    ready\n" {
        process.check_running()?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    process.check_running()?;
    assert_eq!(process.stop().await?.code(), Some(7));
    Ok(())
}

#[tokio::test]
async fn dropping_a_process_ends_it() -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let alive = logs.path().join("alive");
    let script = format!("while :; do echo . >> {}; sleep 0.02; done", alive.display());
    let process = shell(logs.path(), &script).start()?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(process);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = std::fs::metadata(&alive)?.len();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(before > 0, "the process ran");
    assert_eq!(std::fs::metadata(&alive)?.len(), before, "the process writes on");
    Ok(())
}

#[tokio::test]
async fn nothing_is_inherited() -> anyhow::Result<()> {
    let logs = tempfile::tempdir()?;
    let recipe = shell(logs.path(), "echo home=$HOME cargo=$CARGO_MANIFEST_DIR");
    recipe.start()?.child.wait().await?;
    let log = tail(&recipe.log(), 1);
    assert!(log.contains("home= cargo=\n"), "{log}");
    Ok(())
}

#[test]
fn ports_differ() -> anyhow::Result<()> {
    let ports = free_ports::<8>()?;
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 8);
    assert!(ports.iter().all(|port| *port > 0));
    Ok(())
}

#[test]
fn tail_is_bounded_and_never_fails() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, b"one\ntwo\n\xff\n").unwrap();
    assert_eq!(tail(&log, 2), "    two\n    \u{fffd}\n");
    std::fs::write(&log, "ä".repeat(LINE_MAX + 1)).unwrap();
    assert_eq!(tail(&log, 2), format!("    {} …\n", "ä".repeat(LINE_MAX)));
    assert!(tail(&folder.path().join("none"), 2).contains("no log"));
}
