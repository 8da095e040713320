//! Chromium over the DevTools protocol: JSON messages that end in a zero byte, on two pipes.
//!
//! The process has a profile of its own and is ended with its value.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// How long an answer, or a condition, may take. The binary is not optimised, and the computer may be busy.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(100);
/// The names of the program, by distribution.
const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A headless Chromium.
pub(super) struct Browser {
    process: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    calls: u64,
    /// Messages that are no answers.
    events: Vec<Value>,
    profile: PathBuf,
}

/// A page.
pub(super) struct Tab<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Browser {
    /// Starts it.
    ///
    /// # Errors
    /// If no Chromium is installed.
    pub(super) fn start(folder: &Path) -> anyhow::Result<Self> {
        let is_there = |program: &&&str| {
            Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
        };
        let program = PROGRAMS.iter().find(is_there);
        let program =
            program.context("Chromium is missing: install its package (`apt-get install chromium`)")?;
        let profile = folder.join(format!("profile-{}", std::process::id()));
        // It reads file descriptor 3 and writes 4: what the shell has as standard input and output.
        let mut process = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null", "sh", program])
            .args([
                "--remote-debugging-pipe",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context(*program)?;
        let to = process.stdin.take().context("no pipe to Chromium")?;
        let mut from = BufReader::new(process.stdout.take().context("no pipe from Chromium")?);
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while from.read_until(0, &mut message).is_ok_and(|bytes| bytes > 0) {
                message.pop();
                if let Ok(value) = serde_json::from_slice(&message)
                    && sender.send(value).is_err()
                {
                    return;
                }
                message.clear();
            }
        });
        Ok(Self { process, to, from: messages, calls: 0, events: Vec::new(), profile })
    }

    fn call(&mut self, session: Option<&str>, method: &str, parameters: &Value) -> anyhow::Result<Value> {
        self.calls += 1;
        let mut message = json!({"id": self.calls, "method": method, "params": parameters});
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes())?;
        self.to.flush()?;
        loop {
            let mut answer =
                self.from.recv_timeout(PATIENCE).with_context(|| format!("no answer to {method}"))?;
            if answer["id"] != self.calls {
                self.events.push(answer);
                continue;
            }
            if !answer["error"].is_null() {
                bail!("{method}: {}", answer["error"]);
            }
            return Ok(answer["result"].take());
        }
    }

    /// Opens a page, without what others left.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn open(&mut self, url: &str) -> anyhow::Result<Tab<'_>> {
        let target = self.call(None, "Target.createTarget", &json!({"url": "about:blank"}))?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call(None, "Target.attachToTarget", &attach)?;
        let session = attached["sessionId"].as_str().context("no session")?.to_owned();
        self.events.clear();
        let mut tab = Tab { browser: self, session };
        for domain in ["Page", "Runtime", "Log"] {
            tab.call(&format!("{domain}.enable"), &json!({}))?;
        }
        tab.call("Page.navigate", &json!({"url": url}))?;
        tab.wait("document.readyState === 'complete'")?;
        Ok(tab)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended; a profile that is left is in the target directory.
        let _ = self.call(None, "Browser.close", &json!({}));
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}

impl Tab<'_> {
    fn call(&mut self, method: &str, parameters: &Value) -> anyhow::Result<Value> {
        let session = self.session.clone();
        self.browser.call(Some(&session), method, parameters)
    }

    /// The value of an expression, or of its promise.
    ///
    /// # Errors
    /// If it throws.
    pub(super) fn evaluate(&mut self, expression: &str) -> anyhow::Result<Value> {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &asked)?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].take())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// If it is not after two minutes; has the text of the page.
    pub(super) fn wait(&mut self, expression: &str) -> anyhow::Result<()> {
        let mut waited = Duration::ZERO;
        while self.evaluate(expression)? != true {
            if waited > PATIENCE {
                let page = self.evaluate("document.body.innerText")?;
                bail!("{expression} is not true after {PATIENCE:?}: {page}");
            }
            pause();
            waited += POLL;
        }
        Ok(())
    }

    /// Changes the size of the window.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn size(&mut self, width: u32, height: u32) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", &size)?;
        pause();
        Ok(())
    }

    /// Changes the preferred color scheme.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn prefer(&mut self, scheme: &str) -> anyhow::Result<()> {
        let features = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.call("Emulation.setEmulatedMedia", &features)?;
        pause();
        Ok(())
    }

    /// Presses a key.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            other => bail!("key {other} has no code here"),
        };
        let mut event = json!({"type": "rawKeyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            (event["type"], event["text"]) = (json!("keyDown"), json!("\r"));
        }
        self.call("Input.dispatchKeyEvent", &event)?;
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", &event)?;
        Ok(())
    }

    /// What is visible, as PNG.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn screenshot(&mut self) -> anyhow::Result<Vec<u8>> {
        let answer =
            self.call("Page.captureScreenshot", &json!({"format": "png", "optimizeForSpeed": false}))?;
        Ok(BASE64_STANDARD.decode(answer["data"].as_str().unwrap_or_default())?)
    }

    /// What assistive technology reads.
    ///
    /// # Errors
    /// If Chromium does not answer.
    pub(super) fn accessibility(&mut self) -> anyhow::Result<Vec<Value>> {
        self.call("Accessibility.enable", &json!({}))?;
        let mut answer = self.call("Accessibility.getFullAXTree", &json!({}))?;
        Ok(answer["nodes"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Checks that nothing was thrown, refused by a policy or asked with a dialog.
    ///
    /// # Errors
    /// The first of these.
    pub(super) fn is_clean(&mut self) -> anyhow::Result<()> {
        // What was sent before the answer to this call has arrived.
        self.evaluate("null")?;
        for event in &self.browser.events {
            let (method, parameters) = (event["method"].as_str().unwrap_or_default(), &event["params"]);
            let is_bad = match method {
                "Runtime.exceptionThrown" => true,
                dialog if dialog.starts_with("Page.javascriptDialog") => true,
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                "Runtime.consoleAPICalled" => parameters["type"] == "error",
                _ => false,
            };
            // The icon that browsers ask of every host.
            let is_icon =
                parameters["entry"]["url"].as_str().is_some_and(|url| url.ends_with("/favicon.ico"));
            // The check that the endpoint refuses to write.
            let is_post = parameters["entry"]["text"].as_str().is_some_and(|text| text.contains("405"));
            ensure!(!is_bad || is_icon || is_post, "{event}");
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "polls a real browser")]
fn pause() {
    std::thread::sleep(POLL);
}
