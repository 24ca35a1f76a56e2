//! Tables, and keys made beside them.

use tenant::TableKey;
use tenant::key::Secret;

use super::*;

fn key(of: u8) -> TableKey {
    let secret = Secret::of([of; 40]);
    let (id, digest) = (secret.id(), String::from(secret.digest()));
    serde_json::from_value(serde_json::json!({"id": id, "digest": digest})).unwrap()
}

fn tables(keys: [&[u8]; 2]) -> BTreeMap<String, Table> {
    let table = |keys: &[u8]| Table { keys: keys.iter().map(|of| key(*of)).collect(), ..Table::default() };
    ["acme", "guest"].into_iter().zip(keys).map(|(name, keys)| (name.to_owned(), table(keys))).collect()
}

fn caller(access: &Access, of: u8) -> Result<Caller, NoCaller> {
    access.caller(Some(Secret::of([of; 40]).reveal().as_bytes()))
}

fn known(access: &Access, of: u8) -> Tenant {
    caller(access, of).map_err(|denied| denied.to_string()).unwrap().identity()
}

#[test]
fn where_keys_are_not_checked_one_key_is_one_tenant() {
    let open = Access::new(&BTreeMap::new());
    let of = |key: &str| open.caller(Some(key.as_bytes())).unwrap().identity();
    assert_eq!(of("a"), of("a"));
    assert_ne!(of("a"), of("b"));
    assert_ne!(of("a"), Tenant::default());
    assert_eq!(open.caller(None).unwrap().identity(), Tenant::default());
}

#[test]
fn two_keys_of_a_tenant_share_and_two_tenants_or_processes_never_do() {
    let access = Access::new(&tables([&[1, 2], &[3]]));
    assert_eq!(known(&access, 1), known(&access, 2));
    assert_ne!(known(&access, 1), known(&access, 3));
    assert_ne!(known(&access, 1), known(&Access::new(&tables([&[1, 2], &[3]])), 1));
}

#[test]
fn tables_are_replaced_and_tenants_stay_who_they_were() {
    let access = Access::new(&tables([&[1, 2], &[3]]));
    let (acme, guest) = (known(&access, 1), known(&access, 3));
    access.set(&tables([&[2], &[4]]), &[]);
    assert!(caller(&access, 1).is_err() && caller(&access, 3).is_err());
    assert_eq!([known(&access, 2), known(&access, 4)], [acme, guest]);
}

#[test]
fn a_key_made_beside_the_tables_opens_until_it_is_revoked_and_so_does_a_written_one() {
    let access = Access::new(&tables([&[1], &[3]]));
    let made = |of: u8, revoked_unix_s| {
        let record = Secret::of([of; 40]).record(Scope::Tenant("acme".to_owned()), 0);
        MadeKey { tenant: "acme".to_owned(), record: KeyRecord { revoked_unix_s, ..record } }
    };
    access.set(&tables([&[1], &[3]]), &[made(5, None)]);
    assert_eq!(known(&access, 5), known(&access, 1));
    access.set(&tables([&[1], &[3]]), &[made(5, Some(1)), made(1, Some(1))]);
    assert!(caller(&access, 5).is_err() && caller(&access, 1).is_err());
    assert!(caller(&access, 3).is_ok());
}
