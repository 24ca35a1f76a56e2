//! What is refused, and by which name.

use std::path::{Path, PathBuf};

use super::*;
use crate::models::ModelSource;

fn problem(text: &str) -> String {
    Config::parse(text, Path::new("")).expect_err("must be refused").to_string()
}

const PAIR: &str = "[models.a]\nfiles = \"x\"\n[models.b]\nfiles = \"y\"\n";

#[test]
fn the_embedded_configuration_shows_the_defaults() {
    let shown = Config::embedded();
    // A head is no default: it belongs to these weights.
    let bare = "[models.small]\nfiles = \"embedded:small\"\nheads = { r2r = \"embedded:r2r\" }";
    let bare = Config::parse(bare, Path::new("")).expect("valid");
    assert_eq!(format!("{:?}", shown.server), format!("{:?}", bare.server));
    assert_eq!(format!("{:?}", shown.sandbox), format!("{:?}", bare.sandbox));
    assert_eq!(format!("{:?}", shown.uploads), format!("{:?}", bare.uploads));
    assert_eq!(format!("{:?}", shown.models["small"]), format!("{:?}", bare.models["small"]));
    assert_eq!(shown.routes["pair/pinned"].settings["role"], 1.0);
}

#[test]
fn an_unknown_key_is_named() {
    assert!(problem("[server]\nlisten_on = \"x\"").contains("listen_on"));
    assert!(
        problem(&format!("{PAIR}[routes.r]\nmodels = [\"a\"]\npolicy = \"p\"\nfalback = \"a\""))
            .contains("falback")
    );
}

#[test]
fn a_route_must_name_models_that_exist_once_each() {
    let route = |models: &str, more: &str| {
        format!("{PAIR}[routes.\"r/x\"]\npolicy = \"p\"\nmodels = {models}\n{more}")
    };
    assert!(problem(&route("[]", "")).contains("routes.\"r/x\".models: a route needs at least one model"));
    assert!(problem(&route("[\"c\"]", "")).contains("no model \"c\"; the models are a, b"));
    assert!(problem(&route("[\"a\", \"a\"]", "")).contains("stands twice"));
    assert!(problem(&route("[\"a\"]", "fallback = \"b\"")).contains("routes.\"r/x\".fallback"));
}

#[test]
fn names_cannot_collide_or_hold_the_separator() {
    assert!(
        problem(&format!("{PAIR}[routes.a]\nmodels = [\"a\"]\npolicy = \"p\""))
            .contains("a model has this name")
    );
    assert!(problem("[models.\"a@b\"]\nfiles = \"x\"").contains("contains '@'"));
    assert!(problem("").contains("no model is given"));
    let own = problem(&format!("{PAIR}[routes.\"own/x\"]\nmodels = [\"a\"]\npolicy = \"p\""));
    assert!(own.contains("begins with \"own/\""), "{own}");
}

#[test]
fn what_tenants_may_upload_is_bounded() {
    let uploads = |more: &str| format!("{PAIR}[uploads]\n{more}");
    assert!(problem(&uploads("bytes_max = 33554433")).contains("uploads.bytes_max: 33554433 is too much"));
    assert!(problem(&uploads("revisions_max = 1")).contains("uploads.revisions_max: 1 leaves no way back"));
    assert!(problem(&uploads("revisions_max = 101")).contains("at most 100"));
    assert!(problem(&uploads("allow = [\"ab\"]")).contains("not 64 lower-case hexadecimal digits"));
    assert!(problem(&uploads("keys = [\"ab\"]")).contains("not 64 lower-case hexadecimal digits"));
    let follows = |policy: &str| format!("{PAIR}[routes.r]\nmodels = [\"a\"]\npolicy = {policy:?}");
    let config = Config::parse(&follows("uploaded:a/b/c"), Path::new("")).expect("valid");
    let (tenant, name) = ("a/b".to_owned(), "c".to_owned());
    assert_eq!(config.routes["r"].policy, PolicySource::Uploaded { tenant, name });
    assert!(
        problem(&follows("uploaded:b")).contains("routes.\"r\".policy: \"uploaded:b\" is not of the form")
    );
}

#[test]
fn a_device_is_known_and_built_in() {
    let with = |device: &str| format!("[models.a]\nfiles = \"x\"\ndevice = \"{device}\"");
    let model = |device| Config::parse(&with(device), Path::new("")).expect("valid").models["a"].device;
    assert_eq!(model("cpu"), engine::Device::Cpu);
    assert!(problem(&with("gpu")).contains("models.a.device: \"gpu\" is no device"));
    if cfg!(feature = "cuda") {
        assert_eq!(model("cuda:1"), engine::Device::Cuda(1));
    } else {
        let problem = problem(&with("cuda"));
        assert!(problem.starts_with("models.a.device: ") && problem.contains("--features cuda"), "{problem}");
    }
}

#[test]
fn paths_are_relative_to_the_file() {
    let text = format!("{PAIR}[routes.r]\nmodels = [\"a\"]\npolicy = \"mine.wasm\"");
    let config = Config::parse(&text, Path::new("etc")).expect("valid");
    assert_eq!(config.models["a"].source, ModelSource::Path(PathBuf::from("etc/x")));
    assert_eq!(config.routes["r"].policy, PolicySource::File(PathBuf::from("etc/mine.wasm")));
}

#[test]
fn a_simulated_model_has_a_law_of_numbers_that_can_be() {
    let with = |sim: &str| format!("[models.a]\nfiles = \"embedded:small\"\n[models.a.sim]\n{sim}");
    let sim = Config::parse(&with("fixed_ms = 6.0\nunsure = 0.35\ndevice = 1"), Path::new(""));
    let sim = sim.expect("valid").models["a"].sim.clone().expect("simulated");
    assert_eq!((sim.device, sim.settings().fixed_s, sim.settings().unsure), (1, 0.006, 0.35));
    assert!(problem(&with("fixed_ms = -1.0")).contains("models.a.sim.fixed_ms"));
    assert!(problem(&with("unsure = 1.5")).contains("models.a.sim.unsure: must be"));
    assert!(problem(&with("step_ms = 1.0")).contains("step_ms"));
}

#[test]
fn bounds_of_a_route_are_numbers_and_for_their_mode() {
    let with = |mode: &str, slo: &str| {
        let route = "[routes.r]\nmodels = [\"a\", \"b\"]\npolicy = \"p\"";
        format!("{PAIR}[scheduler]\nmode = {mode:?}\n{route}\n{slo}")
    };
    let config = Config::parse(&with("ours", "slo_itl_ms = 40.0"), Path::new("")).expect("valid");
    assert_eq!((config.routes["r"].slo_itl_ms, config.routes["r"].slo_tpot_ms), (Some(40.0), None));
    assert!(problem(&with("ours", "slo_tpot_ms = 0.0")).contains("routes.\"r\".slo_tpot_ms: must be"));
    assert!(problem(&with("eager-async", "slo_tpot_ms = 9.0")).contains("mode = \"ours\""));
}

#[test]
fn thresholds_are_of_models_that_exist_and_for_their_mode() {
    let with = |scheduler: &str| format!("{PAIR}[scheduler]\n{scheduler}");
    let config =
        Config::parse(&with("mode = \"fixed-b\"\nthresholds = { b = 4 }"), Path::new("")).expect("valid");
    assert_eq!(config.scheduler.name(), "fixed-B=4");
    assert!(problem(&with("mode = \"fixed-b\"\nthresholds = { c = 4 }")).contains("scheduler.thresholds.c"));
    assert!(problem(&with("mode = \"fixed-b\"\nthresholds = { b = 0 }")).contains("at least 1"));
    assert!(problem(&with("thresholds = { b = 4 }")).contains("fixed-b"));
    assert!(problem(&with("exclusive = true")).contains("scheduler.exclusive"));
}
