//! How a server puts `tenant`, `experiment` and `store` together: pure crates say what becomes of a record, the store makes it
//! durable with its entry in the audit log, and only then it is in force. Everything survives a restart.

use experiment::definition::{Arm, Evidence, Sticky};
use experiment::guardrail::{self, Guardrail, Limit, Statistic};
use experiment::lifecycle::Described;
use experiment::metric::Metric;
use experiment::tally::Ended;
use experiment::{Answer, Assigner, Assignment, Definition, Experiment, State, Tallies, Unit};
use store::{Area, Kind, Store, StoreError, Why};
use tenant::key::Secret;
use tenant::{KeyRecord, Keyring, Scope};

const NOW_S: u64 = 1_000;
const NOW_MS: u64 = NOW_S * 1_000;

#[test]
fn a_key_that_was_made_and_revoked_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let secret = Secret::of([7; 40]);
    let put = |store: &Store, record: &KeyRecord, action: &str| {
        let why = Why { action, detail: "of acme" };
        store
            .change("admin", NOW_MS, |change| change.put(Kind::Key, &record.id.to_string(), record, why))
            .unwrap();
    };
    let keyring = |store: &Store| {
        let records = store.list::<KeyRecord>(Kind::Key).unwrap();
        Keyring::of(records.into_values().map(|record| record.value))
    };
    let store = Store::open(folder.path()).unwrap();
    put(&store, &secret.record(Scope::Tenant("acme".to_owned()), NOW_S), "create");
    drop(store);

    let store = Store::open(folder.path()).unwrap();
    let keys = keyring(&store);
    let caller = keys.authenticate(&secret.reveal(), NOW_S).unwrap();
    assert_eq!(caller.scope, Scope::Tenant("acme".to_owned()));
    put(&store, &keys.revoke(caller.key, NOW_S).unwrap(), "revoke");
    assert!(keyring(&store).authenticate(&secret.reveal(), NOW_S).is_err());
    let actions = store.audit(1, 9).unwrap().into_iter().map(|entry| entry.action);
    assert_eq!(actions.collect::<Vec<_>>(), ["create", "revoke"]);
}

#[test]
fn an_experiment_goes_on_after_a_restart_and_its_guardrail_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let (created, described) = Experiment::create(definition()).unwrap();
    put(&store, "admin", &created, &described).unwrap();
    let arms = |experiment: &Experiment| -> Vec<Assignment> {
        let assigner = Assigner::new(experiment);
        (0..200u32).map(|user| assigner.assign(Some(&[b"acme", &user.to_le_bytes()]))).collect()
    };
    let before = arms(&created);
    drop(store);

    let store = Store::open(folder.path()).unwrap();
    let experiment = store.get::<Experiment>(Kind::Experiment, "errors").unwrap().unwrap().value;
    assert_eq!(arms(&experiment), before);
    let mut tallies = Tallies::new(&experiment);
    for assignment in before.iter().cycle().take(1_000) {
        serve(&mut tallies, assignment.arm, assignment.unit.unwrap());
    }
    store.observe(Area::Tallies, NOW_MS, [("errors", &tallies)]).unwrap();
    assert_eq!(store.observed::<Tallies>(Area::Tallies, "errors").unwrap(), Some(tallies.clone()));

    let crossed = guardrail::check(&experiment, &tallies).expect("every answer of the treatment fails");
    let (after, described) = experiment.apply(&crossed.action()).unwrap();
    put(&store, "guardrail", &after, &described).unwrap();
    let kept = store.get::<Experiment>(Kind::Experiment, "errors").unwrap().unwrap();
    let State::RolledBack { reason } = &kept.value.state else { panic!("{:?}", kept.value.state) };
    let last = store.audit(2, 1).unwrap().remove(0);
    assert_eq!((last.who.as_str(), last.action.as_str(), &last.detail), ("guardrail", "roll_back", reason));
    assert!(arms(&kept.value).iter().all(|assignment| assignment.arm == 0));
    store.verify(None).unwrap();
}

fn put(store: &Store, who: &str, experiment: &Experiment, described: &Described) -> Result<u64, StoreError> {
    let why = Why { action: described.action, detail: &described.detail };
    let name = &experiment.definition.name;
    store.change(who, NOW_MS, |change| change.put(Kind::Experiment, name, experiment, why))
}

fn definition() -> Definition {
    let limit = Limit::WorseBy(0.05);
    Definition {
        name: "errors".to_owned(),
        route: "pair".to_owned(),
        seed: "a seed that nobody knows".to_owned(),
        sticky: Sticky::User,
        arms: vec![Arm::plain("control", 5000), Arm::plain("treatment", 5000)],
        shadows: Vec::new(),
        evidence: Evidence::default(),
        guardrails: vec![Guardrail { metric: Metric::Errors, of: Statistic::Mean, limit }],
    }
}

fn serve(tallies: &mut Tallies, arm: usize, unit: Unit) {
    let ended = if arm == 1 { Ended::Failed } else { Ended::Stop };
    let answer = Answer { ended, fell_back: false, ttft_s: None, gaps_s: &[], usage: &[], cost: 0.0 };
    tallies.assigned(arm, unit);
    tallies.record(arm, unit, &answer);
}
