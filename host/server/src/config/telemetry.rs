//! `[telemetry]`: where traces go.
//!
//! Where the file is silent, the environment variables of OpenTelemetry's standard are heard, as with every program that
//! sends traces: whoever runs many need not know our names.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::ConfigError;

/// `[telemetry]`
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TelemetryTable {
    /// Base URL of a collector that speaks OTLP over HTTP, such as `http://localhost:4318`. Default: no traces.
    otlp_endpoint: Option<String>,
    /// Headers that it wants.
    otlp_headers: BTreeMap<String, String>,
    /// What this service is called there. Default `tokenrouter`.
    service_name: Option<String>,
    /// Share of the journeys that are traced, of those whose client does not decide. Default 1.
    sample_ratio: Option<f64>,
}

/// Where traces go, and which.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The URL that spans are sent to; none if nobody collects.
    pub endpoint: Option<String>,
    /// Headers beside ours.
    pub headers: BTreeMap<String, String>,
    /// Milliseconds for one request.
    pub timeout_ms: u64,
    /// What this service is called.
    pub service_name: String,
    /// What else is told of it.
    pub resource: BTreeMap<String, String>,
    /// Share of the journeys that are traced.
    pub sample_ratio: f64,
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: BTreeMap::new(),
            timeout_ms: 10_000,
            service_name: "tokenrouter".to_owned(),
            resource: BTreeMap::new(),
            sample_ratio: 1.0,
        }
    }
}

impl TelemetryTable {
    /// With what the environment says where this says nothing.
    pub(super) fn check(self, environment: impl Fn(&str) -> Option<String>) -> Result<Tracing, ConfigError> {
        let given = |name: &str| environment(name).filter(|value| !value.is_empty());
        let either = |name: &str| {
            given(&format!("OTEL_EXPORTER_OTLP_TRACES_{name}"))
                .or_else(|| given(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let mut tracing = Tracing::default();
        let is_off = given("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
            || given("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
        let base = self.otlp_endpoint.map(|base| ("telemetry.otlp_endpoint", base));
        let base = base.or_else(|| {
            given("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| ("OTEL_EXPORTER_OTLP_ENDPOINT", base))
        });
        let base = base.map(|(key, base)| (key, format!("{}/v1/traces", base.trim_end_matches('/'))));
        let whole = given("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
            .map(|url| ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url));
        if let Some((key, url)) = base.or(whole).filter(|_| !is_off) {
            if !(url.starts_with("http://") || url.starts_with("https://")) {
                let problem = format!("{url:?} is no URL of the form http://HOST:PORT");
                return Err(ConfigError::value(key, problem));
            }
            if let Some(other) = either("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
                let problem = format!(
                    "{other:?} is not spoken here; set http/protobuf, and the collector's port for it"
                );
                return Err(ConfigError::value("OTEL_EXPORTER_OTLP_PROTOCOL", problem));
            }
            tracing.endpoint = Some(url);
        }
        tracing.headers = pairs(either("HEADERS"));
        tracing.headers.extend(self.otlp_headers);
        if let Some(timeout) = either("TIMEOUT") {
            let problem = || {
                ConfigError::value(
                    "OTEL_EXPORTER_OTLP_TIMEOUT",
                    format!("{timeout:?} is no number of milliseconds"),
                )
            };
            tracing.timeout_ms = timeout.parse().map_err(|_| problem())?;
        }
        tracing.resource = pairs(given("OTEL_RESOURCE_ATTRIBUTES"));
        let named = self.service_name.or_else(|| given("OTEL_SERVICE_NAME"));
        let named = named.or_else(|| tracing.resource.remove("service.name"));
        tracing.service_name = named.unwrap_or(tracing.service_name);
        tracing.sample_ratio = sample_ratio(self.sample_ratio, &given)?;
        Ok(tracing)
    }
}

fn sample_ratio(written: Option<f64>, given: &impl Fn(&str) -> Option<String>) -> Result<f64, ConfigError> {
    let (key, ratio) = match (written, given("OTEL_TRACES_SAMPLER").as_deref()) {
        (Some(ratio), _) => ("telemetry.sample_ratio", ratio),
        (None, Some("always_off" | "parentbased_always_off")) => ("OTEL_TRACES_SAMPLER", 0.0),
        (None, Some("traceidratio" | "parentbased_traceidratio")) => {
            let argument = given("OTEL_TRACES_SAMPLER_ARG").unwrap_or_else(|| "1".to_owned());
            ("OTEL_TRACES_SAMPLER_ARG", argument.parse().unwrap_or(f64::NAN))
        }
        (None, _) => ("OTEL_TRACES_SAMPLER", 1.0),
    };
    if (0.0..=1.0).contains(&ratio) {
        Ok(ratio)
    } else {
        Err(ConfigError::value(key, "must be a share from 0 to 1"))
    }
}

/// `a=b,c=d`
fn pairs(written: Option<String>) -> BTreeMap<String, String> {
    let written = written.unwrap_or_default();
    let pair = |pair: &str| {
        pair.split_once('=').map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
    };
    written.split(',').filter_map(pair).collect()
}

/// A variable of the environment.
pub(super) fn environment(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "this is where the environment becomes configuration")]
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(table: &str, environment: &[(&str, &str)]) -> Result<Tracing, String> {
        let table: TelemetryTable = toml::from_str(table).expect("keys that there are");
        let given = |name: &str| {
            environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        table.check(given).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_collector_there_are_no_traces() {
        assert_eq!(checked("", &[]), Ok(Tracing::default()));
        let named = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"), ("OTEL_SDK_DISABLED", "true")];
        assert_eq!(checked("", &named).expect("valid").endpoint, None);
    }

    #[test]
    fn the_file_comes_before_the_environment() {
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b, c=d"),
            ("OTEL_SERVICE_NAME", "theirs"),
            ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.25"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
        ];
        let tracing = checked("", &environment).expect("valid");
        assert_eq!(tracing.endpoint.as_deref(), Some("http://c:4318/v1/traces"));
        assert_eq!(
            (tracing.service_name.as_str(), tracing.sample_ratio, tracing.timeout_ms),
            ("theirs", 0.25, 500)
        );
        assert_eq!((tracing.headers.len(), tracing.resource.len()), (2, 1));
        let file = "otlp_endpoint = \"https://ours\"\nservice_name = \"ours\"\nsample_ratio = 0.5\notlp_headers = { a = \"z\" }";
        let tracing = checked(file, &environment).expect("valid");
        assert_eq!(tracing.endpoint.as_deref(), Some("https://ours/v1/traces"));
        assert_eq!(
            (tracing.service_name.as_str(), tracing.sample_ratio, tracing.headers["a"].as_str()),
            ("ours", 0.5, "z")
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        let grpc =
            [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert!(checked("", &grpc).expect_err("refused").contains("OTEL_EXPORTER_OTLP_PROTOCOL: \"grpc\""));
        assert!(
            checked("otlp_endpoint = \"c:4318\"", &[])
                .expect_err("refused")
                .contains("telemetry.otlp_endpoint")
        );
        assert!(checked("sample_ratio = 2.0", &[]).expect_err("refused").contains("telemetry.sample_ratio"));
    }
}
