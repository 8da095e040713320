//! Retired words: private names that Kubernetes, Karpenter or AWS have a public word for. They do not come back, neither in
//! identifiers nor in prose.

use super::Violation;

/// A word that is not written any more, and what is written instead. The plural is meant too.
const RETIRED: &[(&[&str], &str)] = &[
    (&["opening"], "new NodeClaim"),
    (&["homeless"], "unschedulable"),
    (&["standstill"], "blocker"),
    (&["lesson"], "observation"),
    (&["learnt"], "observed"),
    (&["strike"], "failure"),
    (&["anew"], "again"),
    (&["machine"], "node, instance, instance type or host"),
    (&["thought", "away"], "excluded, removed"),
    (&["in", "the", "stead", "of"], "instead of, replaces"),
];

/// Words around `machine` that form a term of others: (word before, word after), empty for any.
const TERMS: &[(&str, &str)] = &[
    ("state", ""),
    ("virtual", ""),
    ("amazon", "image"),
    // `status.nodeInfo.machineID` of a Node.
    ("", "id"),
    ("", "readable"),
    ("", "code"),
];

/// Where a retired word is allowed: path, word, reason.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    ("xtask/src/tidy/words.rs", "", "the list itself"),
    (
        "crates/fake/src/cloud/birth.rs",
        "machine",
        "seed text: with another, every property run is another run",
    ),
];

/// Endings of files that are read; so are Dockerfiles and files without an ending, which are scripts.
const ENDINGS: [&str; 10] = ["rs", "md", "yaml", "yml", "json", "toml", "sh", "txt", "report", "py"];

/// A word of a text, in lower case; identifiers are taken apart at underscores and humps.
struct Word {
    text: String,
    line: usize,
}

/// Checks one file; `file` is its path from the root.
pub(super) fn check(file: &str, text: &str) -> Vec<Violation> {
    if !is_read(file) {
        return Vec::new();
    }
    let words = words(file, text);
    let mut found = Vec::new();
    for (retired, instead) in RETIRED {
        for (at, window) in words.windows(retired.len()).enumerate() {
            let spelled = retired.join(" ");
            let matches = window.iter().zip(*retired).all(|(word, retired)| is_word(&word.text, retired));
            if !matches || is_term(&words, at) || is_exception(file, &spelled) {
                continue;
            }
            let line = words.get(at).map_or(0, |word| word.line);
            let message = format!("`{spelled}` is retired: {instead} (STYLE.md, Prose)");
            found.push(Violation::new(format!("{file}:{line}"), message));
        }
    }
    found
}

/// Recordings are in AWS's words.
fn is_read(file: &str) -> bool {
    if file.starts_with("tests/aws/recorded/") {
        return false;
    }
    let name = file.rsplit('/').next().unwrap_or(file);
    match name.rsplit_once('.') {
        Some((stem, ending)) => ENDINGS.contains(&ending) || stem == "Dockerfile",
        None => name != "LICENSE" && !file.starts_with("fuzz/seeds/"),
    }
}

/// The words of `text`. The rows of CHANGELOG's table of renamed things have to name the old ones, and are left out.
fn words(file: &str, text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    for (line, content) in (1..).zip(text.lines()) {
        if file == "CHANGELOG.md" && content.trim_start().starts_with('|') {
            continue;
        }
        words.extend(split(content).into_iter().map(|text| Word { text, line }));
    }
    words
}

/// `NodeClaimID2s` gives `node`, `claim`, `id`, `s`: a part begins at a capital after a small letter, and at the last of several capitals
/// before a small letter.
fn split(line: &str) -> Vec<String> {
    let letters: Vec<char> = line.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        let small_follows = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let hump = letter.is_uppercase()
            && before.is_some_and(|before| before.is_lowercase() || (before.is_uppercase() && small_follows));
        if (hump || !letter.is_alphabetic()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}

fn is_word(word: &str, retired: &str) -> bool {
    word.strip_prefix(retired).is_some_and(|rest| rest.is_empty() || rest == "s")
}

/// Whether the word at `at` is part of a term that is not ours.
fn is_term(words: &[Word], at: usize) -> bool {
    let text = |at: Option<usize>| at.and_then(|at| words.get(at)).map_or("", |word| word.text.as_str());
    if !is_word(text(Some(at)), "machine") {
        return false;
    }
    let (before, after) = (text(at.checked_sub(1)), text(at.checked_add(1)));
    TERMS.iter().any(|(first, last)| {
        (first.is_empty() || before == *first) && (last.is_empty() || is_word(after, last))
    })
}

fn is_exception(file: &str, spelled: &str) -> bool {
    let words_of = EXCEPTIONS.iter().filter(|(path, _, _)| *path == file);
    words_of.into_iter().any(|(_, word, _)| word.is_empty() || *word == spelled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> usize {
        check(file, text).len()
    }

    #[test]
    fn retired_words_are_found_in_names_and_in_prose() {
        for planted in [
            "let machine = 1;",
            "struct NewMachines;",
            "fn machine_of(x: u8) {}",
            "//! Strikes, and what follows.",
            "const LEARNT_COUNT: u8 = 1;",
            "// A node that is thought\n// away.",
            "# it came in the stead of a node",
            "\"machine-1\"",
            "HTTPMachine",
        ] {
            assert_eq!(found("a.rs", planted), 1, "{planted}");
        }
        for file in ["a.md", "deploy/Dockerfile", "ci/run", "tests/a.report"] {
            assert_eq!(found(file, "built anew"), 1, "{file}");
        }
        assert_eq!(check("a.md", "x\n\nhomeless")[0].place, "a.md:3");
    }

    #[test]
    fn terms_of_others_and_longer_words_are_fine() {
        for fine in [
            "a state machine, a StateMachine",
            "an Amazon Machine Image (AMI); Amazon Machine Images",
            "Whether virtual machines can run",
            "k8s.io/apimachinery, machinery",
            "machineID: x; machine code",
            "reopening, striking, thought it away",
        ] {
            assert_eq!(found("a.rs", fine), 0, "{fine}");
        }
        assert_eq!(found("LICENSE", "machine-generated"), 0);
    }

    #[test]
    fn exceptions_are_narrow() {
        assert_eq!(found("CHANGELOG.md", "| `machine` | node |"), 0);
        assert_eq!(found("CHANGELOG.md", "The machine is gone."), 1);
        let file = "crates/fake/src/cloud/birth.rs";
        assert_eq!((found(file, "\"machine\""), found(file, "learnt")), (0, 1));
    }
}
