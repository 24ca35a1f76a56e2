//! A running server, asked from the command line.

use std::path::PathBuf;

use serde_json::Value;
use ureq::http::Request;

use super::CliError;

/// `--server URL` and the key.
#[derive(Debug, clap::Args)]
pub(super) struct Remote {
    /// The server.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// File that holds the API key; without it the variable TOKENROUTER_KEY, or no key.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    // Not to be given on the command line, where other users could read it.
    #[arg(long, env = "TOKENROUTER_KEY", hide = true, hide_env_values = true)]
    key: Option<String>,
}

/// What is sent with a request.
pub(super) struct Body {
    /// Its content type.
    pub(super) kind: String,
    /// Its bytes.
    pub(super) bytes: Vec<u8>,
}

impl Body {
    /// JSON.
    pub(super) fn json(value: &Value) -> Self {
        Self { kind: "application/json".to_owned(), bytes: value.to_string().into_bytes() }
    }
}

impl Remote {
    /// The answer to a request that was not refused.
    ///
    /// # Errors
    /// [`CliError::Unreachable`], or [`CliError::Refused`] with what the server says.
    pub(super) fn ask(&self, method: &str, path: &str, body: Option<Body>) -> Result<Value, CliError> {
        let url = format!("{}{path}", self.server.trim_end_matches('/'));
        let unreachable =
            |error: ureq::Error| CliError::Unreachable { url: url.clone(), source: Box::new(error) };
        let mut request = Request::builder().method(method).uri(&url);
        if let Some(key) = self.key()? {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let answered = match body {
            None => request.body(()).map_err(ureq::Error::from).and_then(|request| agent.run(request)),
            Some(Body { kind, bytes }) => request
                .header("content-type", kind)
                .body(bytes)
                .map_err(ureq::Error::from)
                .and_then(|request| agent.run(request)),
        };
        let mut response = answered.map_err(unreachable)?;
        let status = response.status().as_u16();
        let text = response.body_mut().read_to_string().map_err(unreachable)?;
        let answer: Value = serde_json::from_str(&text).unwrap_or(Value::String(text));
        if status < 400 {
            return Ok(answer);
        }
        let told = |field: &str| answer["error"][field].as_str().map(str::to_owned);
        let message = told("message").unwrap_or_else(|| answer.to_string());
        let code = told("code").map_or_else(String::new, |code| format!(", {code}"));
        Err(CliError::Refused { status, message, code })
    }

    fn key(&self) -> Result<Option<String>, CliError> {
        let Some(file) = &self.key_file else { return Ok(self.key.clone()) };
        let text =
            std::fs::read_to_string(file).map_err(|source| CliError::Read { file: file.clone(), source })?;
        Ok(Some(text.trim().to_owned()))
    }
}

/// A text as a part of a path or of what follows `?`.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_part_of_a_path() {
        assert_eq!(encoded("doubt-2.a_B"), "doubt-2.a_B");
        assert_eq!(encoded("a/b?c ü"), "a%2Fb%3Fc%20%C3%BC");
    }
}
