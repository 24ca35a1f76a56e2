//! End-to-end tests: real models, real Wasm, and where it matters real HTTP.

mod bad_input;
mod builtin;
mod experiments;
mod experiments_load;
mod experiments_scores;
mod frozen;
#[path = "../../host/policy/tests/all/guest.rs"]
#[expect(dead_code, reason = "the tests of the policy host use the rest")]
mod guest;
mod hostile;
mod hot_config;
mod http_answers;
mod http_clients;
mod http_errors;
mod http_keys;
mod http_life;
mod http_page;
mod http_quotas;
mod http_routing;
mod http_sampling;
mod http_two;
mod lanes;
mod made_keys;
mod memory;
mod misbehaving;
mod observed;
mod openapi;
mod prebuilt;
mod questions;
mod recompile;
mod reload;
mod scheduling;
mod schema;
mod self_pair;
mod shares;
mod tenant_shares;
mod tidy;
mod translated;
mod trials;
mod uploads;
mod uploads_hidden;
mod uploads_life;
