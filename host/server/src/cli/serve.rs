//! `tokenrouter serve`: the HTTP server from its first line to its last answer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{CliError, ConfigFile, configuration, start};
use crate::config::{Config, Overrides};
use crate::control::{Control, ControlError, Watch};
use crate::http::{self, HttpSettings};
use crate::runtime::Runtime;
use crate::terminal::{Align, Table, Terminal, palette};

/// Answer OpenAI-compatible requests over HTTP.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
SIGTERM or Ctrl-C lets running answers finish, for server.drain_seconds at most; a second one ends at once.
A configuration file that changes is read again, at once by SIGHUP; GET /admin/config tells how that went.

Examples:
  tokenrouter serve
  tokenrouter serve --listen 0.0.0.0:8000 --log-format json
  tokenrouter serve --config my.toml --log warn")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Address and port in place of server.listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// Folder for what is kept over restarts, in place of server.data_dir: uploaded policies, experiments, keys, audit log.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

pub(super) async fn serve(args: Args, terminal: &Terminal) -> Result<(), CliError> {
    let overrides = Overrides { listen: args.listen, data_dir: args.data_dir, ..Overrides::default() };
    let file = args.config.config;
    let config = configuration(file.as_deref())?.with(&overrides);
    let address = config.server.listen;
    // Before anything is loaded, so that a taken port is known at once.
    let failed = |source| CliError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let watch = file.map(|file| Arc::new(Watch::new(&file, overrides)));
    let mut signals = Signals::new(watch.clone()).map_err(|source| CliError::Signals { source })?;
    let shutdown = CancellationToken::new();
    let (loaded, when_loaded) = oneshot::channel();
    // From now on it can be asked whether this process lives.
    let serving = http::serve_when(
        listener,
        async { when_loaded.await.ok() },
        HttpSettings::new(&config),
        shutdown.clone(),
    );
    tokio::pin!(serving);
    let (runtime, control) = tokio::select! {
        opened = open(config.clone()) => opened?,
        () = signals.next() => return Ok(()),
        // Nobody has asked for it.
        () = &mut serving => return Ok(()),
    };
    announce(&config, address, terminal);
    // Ends with the server: nothing that it does may be broken off halfway.
    let following = watch.map(|watch| {
        tokio::spawn(shutdown.clone().run_until_cancelled_owned(Arc::clone(&control).follow(watch)))
    });
    if loaded.send(control).is_err() {
        tracing::error!("nobody serves any more what was loaded");
    }
    tokio::select! {
        () = &mut serving => {}
        () = signals.next() => {}
    }
    shutdown.cancel();
    // `serve` waits for the answers that run, until the deadline; then nothing is left but to stop the loops.
    let drained = async {
        serving.await;
        if let Some(following) = following
            && let Err(error) = following.await
        {
            tracing::error!(%error, "following the configuration ended badly");
        }
        runtime.shut_down(Duration::ZERO).await;
    };
    tokio::select! {
        () = drained => Ok(()),
        () = signals.next() => Err(CliError::Impatient),
    }
}

/// Loads what is served, and puts in force what was changed before.
async fn open(config: Config) -> Result<(Arc<Runtime>, Arc<Control>), CliError> {
    let runtime = Arc::new(load(config.clone()).await?);
    let control = control(&runtime, config).await?;
    Ok((runtime, control))
}

/// On a thread of its own, so that a signal ends even the loading of a large model.
async fn load(config: Config) -> Result<Runtime, CliError> {
    let loading = tokio::task::spawn_blocking(move || start(&config)).await;
    loading.map_err(|error| CliError::Threads { source: io::Error::other(error) })?
}

/// With what was changed before in force, if that is kept.
async fn control(runtime: &Arc<Runtime>, config: Config) -> Result<Arc<Control>, CliError> {
    let (runtime, folder) = (Arc::clone(runtime), config.server.data_dir.clone());
    let opening = tokio::task::spawn_blocking(move || Control::new(runtime, &config));
    let opened = opening.await.unwrap_or(Err(ControlError::Panicked));
    Ok(Arc::new(opened.map_err(|error| match error {
        ControlError::Experiments(source) => CliError::Experiments(source),
        other => CliError::DataDir { folder: folder.unwrap_or_default(), source: Box::new(other) },
    })?))
}

fn announce(config: &Config, address: SocketAddr, terminal: &Terminal) {
    let names = |names: Vec<&String>| names.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let mut table = Table::new(&[Align::Left, Align::Left]);
    table.row([&"  models", &names(config.models.keys().collect())]);
    if !config.routes.is_empty() {
        table.row([&"  routes", &names(config.routes.keys().collect())]);
    }
    table.row([&"  try it", &curl(config, address)]);
    let style = palette::STRONG;
    let text = format!("tokenrouter listens on {style}http://{address}{style:#}\n{table}");
    if let Err(error) = terminal.line(format_args!("{text}")) {
        // Who started the server may have stopped listening to it; its clients have not.
        tracing::warn!(%error, "cannot say on standard output where the server listens");
    }
}

fn curl(config: &Config, address: SocketAddr) -> String {
    let model = config.routes.keys().chain(config.models.keys()).next().map_or("", String::as_str);
    let (model, question) = (serde_json::json!(model), serde_json::json!(EXAMPLE));
    let body =
        format!("{{\"model\": {model}, \"messages\": [{{\"role\": \"user\", \"content\": {question}}}]}}");
    let url = format!("http://{}/v1/chat/completions", reachable(address));
    let key = if config.tenants.is_empty() { "" } else { "-H \"authorization: Bearer $KEY\" " };
    format!("curl {url} {key}-H 'content-type: application/json' -d '{body}'")
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    };
    SocketAddr::new(host, address.port())
}

/// SIGTERM and SIGINT, from the moment this is made.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    /// Only where there is a file to read again; else it ends the process, as a lost terminal should.
    hangup: Option<(tokio::signal::unix::Signal, Arc<Watch>)>,
}

#[cfg(unix)]
impl Signals {
    fn new(watch: Option<Arc<Watch>>) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = watch.map(|watch| signal(SignalKind::hangup()).map(|signal| (signal, watch)));
        let (terminate, interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        Ok(Self { terminate, interrupt, hangup: hangup.transpose()? })
    }

    /// Until one of those that end the server.
    async fn next(&mut self) {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Some((signal, watch)) => signal.recv().await.map(|()| &*watch),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                Some(watch) = hangup => watch.ask(),
            }
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new(_watch: Option<Arc<Watch>>) -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "Ctrl-C cannot be waited for");
            std::future::pending::<()>().await;
        }
    }
}

const EXAMPLE: &str =
    "Tom has 45 apples. He finds 17 more apples. He buys 38 more apples. How many apples does Tom have now?";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_everybody_is_shown_as_one_that_can_be_reached() {
        let shown = |address: &str| reachable(address.parse().unwrap()).to_string();
        assert_eq!(shown("0.0.0.0:80"), "127.0.0.1:80");
        assert_eq!(shown("[::]:80"), "[::1]:80");
        assert_eq!(shown("10.0.0.1:80"), "10.0.0.1:80");
    }

    #[test]
    fn the_curl_line_can_be_pasted() {
        let line = curl(&Config::embedded(), "127.0.0.1:8080".parse().unwrap());
        let body = line.split_once("-d '").unwrap().1.strip_suffix('\'').unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["model"], "pair/entropy");
        assert!(line.starts_with("curl http://127.0.0.1:8080/v1/chat/completions "), "{line}");
    }
}
