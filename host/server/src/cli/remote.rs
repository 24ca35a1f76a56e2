//! A server that runs elsewhere, as commands talk to it: JSON over HTTP, with the caller's key.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::CliError;

/// Which server, and on whose behalf.
#[derive(Debug, clap::Args)]
pub(super) struct Remote {
    /// Where the server is.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// File that holds the API key; without it, the variable TOKENROUTER_KEY. A server without [tenants] needs none.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
}

/// A request that was not answered as it should be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RemoteError {
    /// The server cannot be reached.
    #[error("cannot reach {url}; is the server running, and is --server right?")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why not.
        source: Box<ureq::Error>,
    },
    /// The server refused.
    #[error("the server says {status}: {message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// What came back is no JSON.
    #[error("{url} does not answer as a tokenrouter does; is --server right?")]
    Strange {
        /// What was asked.
        url: String,
    },
}

impl Remote {
    /// What a path says.
    pub(super) fn get(&self, path: &str) -> Result<Value, CliError> {
        self.ask("GET", path, None)
    }

    /// What a path says to a body.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        self.ask("POST", path, Some(body))
    }

    /// Puts a body there.
    pub(super) fn put(&self, path: &str, body: &Value) -> Result<Value, CliError> {
        self.ask("PUT", path, Some(body))
    }

    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, CliError> {
        let url = format!("{}{path}", self.server.trim_end_matches('/'));
        let unreachable = |source| RemoteError::Unreachable { url: url.clone(), source: Box::new(source) };
        let key = self.key()?;
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(&url)
            .header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = request.body(body).map_err(|error| unreachable(error.into()))?;
        // A status is an answer, with words worth reading.
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_global(Some(TIMEOUT))
            .build()
            .new_agent();
        let mut response = agent.run(request).map_err(unreachable)?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().map_err(unreachable)?;
        let value: Value =
            serde_json::from_str(&text).map_err(|_| RemoteError::Strange { url: url.clone() })?;
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let message = value["error"]["message"].as_str().unwrap_or("no reason was given").to_owned();
        Err(RemoteError::Refused { status, message }.into())
    }

    fn key(&self) -> Result<Option<String>, CliError> {
        if let Some(file) = &self.key_file {
            let text = std::fs::read_to_string(file)
                .map_err(|source| CliError::Read { file: file.clone(), source })?;
            return Ok(Some(text.trim().to_owned()));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "a secret stands neither in a command line nor in a configuration"
        )]
        let key = std::env::var("TOKENROUTER_KEY").ok();
        Ok(key.map(|key| key.trim().to_owned()).filter(|key| !key.is_empty()))
    }
}

/// A change may compile a policy.
const TIMEOUT: Duration = Duration::from_secs(60);
