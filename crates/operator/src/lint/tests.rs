//! Scenarios: `tests/scenarios/lint/CODE-fail.yaml` has a finding of the rule, `CODE-pass.yaml` has none; the findings are beside them.

use std::path::Path;

use fleetwright_core::model::{LabelSchema, NodeClassRef};
use serde_json::Value;

use super::*;
use crate::{
    catalogue::{ClassOffer, ClassRequest, MovingImage, OfflineCatalogue},
    cli::{Interface, Invocation, LintFormat, Tool, parse},
    scenarios,
};

fn linted(items: &[Item], values: &Values) -> Linted {
    lint(items, &CatalogueOptions::default(), &scenarios::catalogues(), values).unwrap()
}

fn findings(path: &Path) -> Vec<Finding> {
    let items = input::read(&[path.to_owned()]).unwrap();
    // The one rule that asks the account.
    let asks = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("L107"));
    let env = |key: &str| (asks && key == "CATALOG").then(|| "acme".to_owned());
    let values = Values::resolve(&Default::default(), env).unwrap();
    let catalogues = scenarios::catalogues().with(Acme);
    let mut findings = lint(&items, &CatalogueOptions::default(), &catalogues, &values).unwrap().findings;
    for finding in &mut findings {
        finding.file = path.file_name().unwrap().to_string_lossy().into_owned();
    }
    findings
}

#[test]
fn scenario_files() {
    scenarios::check("lint", |path| output::render(LintFormat::Text, &findings(path)).unwrap());
}

#[test]
fn each_rule_has_a_failing_and_a_passing_file_and_a_section() {
    let page = std::fs::read_to_string(scenarios::from_root("docs/book/lint.md")).unwrap();
    for rule in &rules::RULES {
        let has = |suffix: &str| {
            let path = scenarios::from_root(&format!("tests/scenarios/lint/{}-{suffix}.yaml", rule.code));
            findings(&path).iter().any(|finding| finding.code == rule.code)
        };
        assert!(has("fail"), "{}: no finding in the failing file", rule.code);
        assert!(!has("pass"), "{}: a finding in the passing file", rule.code);
        assert!(
            page.contains(&format!("\n## {}\n", rule.code)),
            "{}: no section in docs/book/lint.md",
            rule.code
        );
        assert!(
            page.contains(rule.title),
            "{}: docs/book/lint.md lacks its title {:?}",
            rule.code,
            rule.title
        );
    }
}

#[test]
fn the_examples_have_no_errors() {
    for folder in ["examples", "examples/aws"] {
        for path in scenarios::files(folder) {
            let errors: Vec<_> =
                findings(&path).into_iter().filter(|finding| finding.severity == Severity::Error).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", path.display());
        }
    }
}

#[test]
fn formats_for_programs() {
    let found = findings(&scenarios::from_root("tests/scenarios/lint/L112-fail.yaml"));
    let github = output::render(LintFormat::Github, &found).unwrap();
    assert!(github.starts_with("::error file=L112-fail.yaml,line="), "{github}");
    let sarif: Value = serde_json::from_str(&output::render(LintFormat::Sarif, &found).unwrap()).unwrap();
    assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "L112");
    let of_driver = sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(of_driver.len(), rules::RULES.len());
    let book = std::fs::read_to_string(scenarios::from_root("docs/book/book.toml")).unwrap();
    let published = book.lines().find_map(|line| line.strip_prefix("git-repository-url = ")).unwrap();
    for rule in of_driver {
        let page = rule["helpUri"].as_str().unwrap();
        assert!(page.parse::<http::Uri>().unwrap().scheme_str() == Some("https"), "{page}");
        assert!(page.starts_with(published.trim_matches('"')), "{page} is not below {published}");
    }
    let json: Value = serde_json::from_str(&output::render(LintFormat::Json, &found).unwrap()).unwrap();
    assert_eq!(json["findings"][0]["code"], "L112");
}

#[test]
fn exit_statuses_follow_the_findings() {
    let of = |code: &str| findings(&scenarios::from_root(&format!("tests/scenarios/lint/{code}-fail.yaml")));
    let (errors, warnings) = (of("L112"), of("L115"));
    assert_eq!(outcome(&errors, FailOn::Error), Outcome::Blocked);
    assert_eq!(outcome(&errors, FailOn::Never), Outcome::Complete);
    assert_eq!(outcome(&warnings, FailOn::Error), Outcome::Complete);
    assert_eq!(outcome(&warnings, FailOn::Warning), Outcome::Warnings);
}

#[test]
fn a_calendar_names_the_budget_that_decides() {
    let file = scenarios::from_root("tests/scenarios/lint/L109-pass.yaml");
    let args =
        ["fleetwright", "lint", "--calendar", "1d", "--at", "2026-01-01T00:00:00Z", "-f"].map(Into::into);
    let Invocation::Tool(Tool::Lint(options), _) =
        parse(args.into_iter().chain([file.into()]), &Interface::plain()).unwrap()
    else {
        panic!("not lint");
    };
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    let items = input::read_from(&options.input).unwrap();
    let when = (options.at.unwrap(), options.calendar.unwrap());
    let page = calendar::page(items, when, &scenarios::catalogues(), &values).unwrap();
    let text = page.render(crate::sheet::Format::Csv, None);
    for line in [
        "default,Drifted,2026-01-01T00:00:00Z,2026-01-01T09:00:00Z,10,budgets[1]",
        "default,Drifted,2026-01-01T09:00:00Z,2026-01-01T17:00:00Z,0,budgets[0]",
        "default,Drifted,2026-01-01T17:00:00Z,2026-01-02T00:00:00Z,10,budgets[1]",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_window_within_an_hour_is_in_the_calendar() {
    let pool = std::fs::read_to_string(scenarios::from_root("tests/scenarios/lint/L109-pass.yaml")).unwrap();
    let pool = pool.replace("0 9 * * *", "40 2 * * *").replace("8h", "30m");
    let mut items = Vec::new();
    input::parse(Path::new("in.yaml"), &pool, &mut items).unwrap();
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    let when = ("2026-01-01T00:00:00Z".parse().unwrap(), std::time::Duration::from_secs(6 * 3600));
    let page = calendar::page(items, when, &scenarios::catalogues(), &values).unwrap();
    let text = page.render(crate::sheet::Format::Csv, None);
    for line in [
        "default,Empty,2026-01-01T00:00:00Z,2026-01-01T02:40:00Z,10,budgets[1]",
        "default,Empty,2026-01-01T02:40:00Z,2026-01-01T03:10:00Z,0,budgets[0]",
        "default,Empty,2026-01-01T03:10:00Z,2026-01-01T06:00:00Z,10,budgets[1]",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// The work on one report has a bound: workloads beyond it get the first constraint of each NodePool.
#[test]
fn every_workload_that_fits_nowhere_has_its_constraint() {
    let pool = "{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: default}, spec: {template: {spec: {nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}, requirements: []}}}}";
    let pod = |at| {
        format!(
            "\n---\n{{apiVersion: v1, kind: Pod, metadata: {{name: p{at}}}, spec: {{nodeSelector: {{disk{at}: ssd}}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}}}"
        )
    };
    let text: String = std::iter::once(pool.to_owned()).chain((0..9).map(pod)).collect();
    let mut items = Vec::new();
    input::parse(Path::new("in.yaml"), &text, &mut items).unwrap();
    let found = linted(&items, &Values::resolve(&Default::default(), |_| None).unwrap()).findings;
    let messages: Vec<&str> =
        found.iter().filter(|finding| finding.code == "L117").map(|finding| &*finding.message).collect();
    assert_eq!(messages.len(), 9);
    assert!(
        messages.iter().all(|message| message.contains("default: incompatible requirements")),
        "{messages:?}"
    );
}

#[test]
fn what_is_no_kubernetes_object_is_said() {
    let mut items = Vec::new();
    input::parse(Path::new("in.yaml"), "error: the server has no such type", &mut items).unwrap();
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    assert!(linted(&items, &values).unchecked[0].contains("no Kubernetes object"));
    assert_eq!(linted(&[], &values).unchecked, ["the input has no objects"]);
}

/// A cloud of a third party, which no NodePool of the input is of.
struct Acme;

impl OfflineCatalogue for Acme {
    fn names(&self) -> &'static [&'static str] {
        &["acme"]
    }

    fn serves(&self, class: &NodeClassRef) -> bool {
        &*class.kind == "AcmeNodeClass"
    }

    fn labels(&self) -> LabelSchema {
        let mut labels = LabelSchema::default();
        labels.well_known.insert("acme.example/gpu-family".into());
        labels.restricted_domains.insert("acme.example".into());
        labels
    }

    /// Its account has two instances.
    fn unclaimed(&self, _: &str, claims: &[&Value], _: &Values) -> anyhow::Result<Vec<String>> {
        let is_claimed = |id: &&str| claims.iter().any(|claim| claim["status"]["providerID"] == *id);
        Ok(["i-1", "i-2"].iter().filter(|id| !is_claimed(id)).map(|id| (*id).to_owned()).collect())
    }

    fn moving_images(&self, class: &Value) -> Vec<MovingImage> {
        let moves = class["spec"]["image"] == "latest";
        moves
            .then(|| MovingImage::new("spec.image", "the image changes", "name a version"))
            .into_iter()
            .collect()
    }

    fn offer(&self, _: &ClassRequest<'_>) -> anyhow::Result<ClassOffer> {
        Ok(ClassOffer::default())
    }

    fn export(&self, _: &str, _: &CatalogueOptions, _: &Values) -> anyhow::Result<String> {
        Ok(String::new())
    }
}

/// Objects of a registered cloud are checked by its definitions, and what it says of its images is a finding.
#[test]
fn node_classes_of_a_registered_cloud_are_checked() {
    let class = |spec: &str| {
        let text = format!(
            "{{apiVersion: acme.example/v1, kind: AcmeNodeClass, metadata: {{name: a}}, spec: {spec}}}"
        );
        let mut items = Vec::new();
        input::parse(Path::new("in.yaml"), &text, &mut items).unwrap();
        items
    };
    let definitions = || {
        let text =
            std::fs::read_to_string(scenarios::from_root("tests/scenarios/lint/acme-crd.json")).unwrap();
        vec![serde_json::from_str(&text).unwrap()]
    };
    let with = Catalogues::default().with(Acme).with_definitions("acme", definitions);
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    let found = |spec: &str, catalogues: &Catalogues| -> Vec<String> {
        let all = lint(&class(spec), &CatalogueOptions::default(), catalogues, &values).unwrap().findings;
        all.into_iter()
            .map(|finding| format!("{} {}: {}", finding.code, finding.path, finding.message))
            .collect()
    };
    assert_eq!(found("{image: v1, cores: 2}", &with), [""; 0]);
    assert_eq!(found("{image: v1, core: 2}", &with), ["L001 spec.core: unknown field \"spec.core\""]);
    let refused = found("{image: v1, cores: two}", &with);
    assert!(matches!(&*refused, [one] if one.starts_with("L002 spec.cores: ")), "{refused:?}");
    assert_eq!(found("{image: latest}", &with), ["L108 spec.image: the image changes"]);
    assert_eq!(found("{image: latest, core: 2}", &Catalogues::default()), [""; 0]);
}

#[test]
fn labels_of_a_registered_cloud_are_known() {
    let pod = |label: &str| {
        let text = format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{nodeSelector: {{{label}: a}}, containers: [{{name: c, image: i, resources: {{requests: {{cpu: 1, memory: 1Gi}}}}}}]}}}}"
        );
        let mut items = Vec::new();
        input::parse(Path::new("in.yaml"), &text, &mut items).unwrap();
        items
    };
    let values = Values::resolve(&Default::default(), |_| None).unwrap();
    let fixes = |label: &str, catalogues: &Catalogues| -> Vec<String> {
        let found = lint(&pod(label), &CatalogueOptions::default(), catalogues, &values).unwrap().findings;
        found.into_iter().filter(|finding| finding.code == "L122").map(|finding| finding.fix).collect()
    };
    let with = Catalogues::default().with(Acme);
    assert_eq!(fixes("acme.example/gpu-familly", &with), ["did you mean \"acme.example/gpu-family\"?"]);
    assert_eq!(fixes("acme.example/gpu-family", &with), [""; 0]);
    assert_eq!(fixes("acme.example/rack", &with), ["remove it"]);
    assert_eq!(
        fixes("acme.example/gpu-familly", &Catalogues::default()),
        [""; 0],
        "the cloud is not of this build"
    );
}

#[test]
fn bad_input_is_named() {
    scenarios::check_bad_input("lint", &["text", "objects"], |files| {
        let values = Values::resolve(&Default::default(), |_| None).unwrap();
        let items = input::read(files)?;
        let Linted { findings, unchecked } = linted(&items, &values);
        let when = ("2026-01-01T00:00:00Z".parse().unwrap(), std::time::Duration::from_secs(86_400));
        calendar::page(items, when, &scenarios::catalogues(), &values)?;
        let text = output::render(LintFormat::Text, &findings)?;
        output::render(LintFormat::Sarif, &findings)?;
        let lines = text.lines().filter(|line| line.contains(": error ") || line.contains(": warning "));
        Ok(lines.map(str::to_owned).chain(unchecked).collect())
    });
}
