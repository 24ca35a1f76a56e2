//! `tokenrouter policy upload`: a component and where it is to serve, to a running server.

use std::path::PathBuf;

use serde_json::Value;

use super::served::{Of, answered};
use super::{read, test};
use crate::cli::CliError;
use crate::cli::remote::Body;
use crate::terminal::Terminal;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The server checks the component, tries it, and serves it as own/NAME for the tenant of the key: like --route, but decided by
it. Uploading again under the same name replaces it; answers that run finish with what they began with.

Examples:
  tokenrouter policy upload doubt --component doubt.wasm --route pair/entropy
  tokenrouter policy upload doubt --component doubt.wasm --route pair/entropy --set least=0.6 --key-file key")]
pub(in crate::cli) struct Upload {
    #[command(flatten)]
    of: Of,
    /// The component (.wasm).
    #[arg(long, value_name = "FILE")]
    component: PathBuf,
    /// The route whose models, fallback and promises it serves with.
    #[arg(long, value_name = "ROUTE")]
    route: String,
    /// A setting of the policy; may be given again.
    #[arg(long, value_name = "KEY=N", value_parser = test::setting)]
    set: Vec<(String, f64)>,
    /// Signature of the component, as `policy sign` writes it.
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Keep it without having it serve.
    #[arg(long)]
    idle: bool,
}

pub(in crate::cli) fn upload(args: &Upload, terminal: &Terminal) -> Result<(), CliError> {
    let mut form = Form::default();
    form.part("manifest", manifest(args).as_bytes());
    if let Some(file) = &args.signature {
        form.part("signature", &read(file)?);
    }
    form.part("component", &read(&args.component)?);
    let more = if args.idle { [("activate", "false")].as_slice() } else { &[] };
    let policy = args.of.ask("PUT", "", more, Some(form.body()))?;
    answered(&policy, terminal)
}

/// The part that says where it is to serve.
fn manifest(args: &Upload) -> String {
    let quoted = |text: &str| Value::String(text.to_owned()).to_string();
    let mut text = format!("route = {}\n[settings]\n", quoted(&args.route));
    for (key, value) in &args.set {
        text += &format!("{} = {value:?}\n", quoted(key));
    }
    text
}

/// A body of `multipart/form-data`.
#[derive(Default)]
struct Form(Vec<u8>);

impl Form {
    fn part(&mut self, name: &str, bytes: &[u8]) {
        let head = format!(
            "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\r\n"
        );
        self.0.extend_from_slice(head.as_bytes());
        self.0.extend_from_slice(bytes);
        self.0.extend_from_slice(b"\r\n");
    }

    fn body(mut self) -> Body {
        self.0.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        Body { kind: format!("multipart/form-data; boundary={BOUNDARY}"), bytes: self.0 }
    }
}

/// In no component but one that was made to have it, which then is cut off and refused.
const BOUNDARY: &str = "tokenrouter-5f1c7a90d2b34e68";
