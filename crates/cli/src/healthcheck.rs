//! `doppel healthcheck`: checks whether a running service is ready, for containers without curl.

use std::process::ExitCode;
use std::time::Duration;

use reqwest::Url;
use serde_json::Value;

use crate::client::{self, CertificateCheck, RequestFault, TlsArgs};
use crate::usage;

/// Time in which the service must answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Options of `doppel healthcheck`.
#[derive(Clone, Debug, clap::Args)]
pub struct HealthcheckArgs {
    /// Address that the command requests. For a service on this machine the command uses https if the service uses TLS, even if the address begins
    /// with http://. It checks the certificate of such a service only with --ca, because the request contains no secret
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080/readyz")]
    pub url: String,
    #[command(flatten)]
    trust: TlsArgs,
}

/// Exits with 0 if the service answers with status 200.
///
/// # Errors
/// The service answers with another status or not at all.
#[expect(clippy::needless_pass_by_value, reason = "every command takes its arguments by value")]
pub fn run(args: HealthcheckArgs) -> anyhow::Result<ExitCode> {
    let mut url = client::parse_url(&args.url).map_err(|reason| usage(format!("--url {}: {reason}", args.url)))?;
    let plain = url.scheme() == "http" && is_this_machine(&url);
    let mut answer = match plain {
        // The options for https apply only if the service uses https.
        true => ask(&url, &TlsArgs::default())?,
        false => ask(&url, &args.trust)?,
    };
    if plain && answer.1 && url.set_scheme("https").is_ok() {
        answer = ask(&url, &args.trust)?;
    }
    anyhow::ensure!(answer.0 == 200, "{url} answers {}", answer.0);
    Ok(ExitCode::SUCCESS)
}

fn is_this_machine(url: &Url) -> bool {
    match url.host_str().map(|host| host.trim_start_matches('[').trim_end_matches(']')) {
        Some("localhost") => true,
        Some(host) => host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()),
        None => false,
    }
}

/// Returns the status of the response, and true if the response tells that the port uses TLS.
fn ask(url: &Url, trust: &TlsArgs) -> anyhow::Result<(u16, bool)> {
    let who = if is_this_machine(url) { CertificateCheck::Waived } else { CertificateCheck::Required };
    let request = client::client(url, None, trust, who)?.get(url.clone()).timeout(TIMEOUT);
    let answer = client::runtime()?.block_on(client::exchange(request));
    let (status, body) = answer.map_err(|fault| match fault {
        RequestFault::Untrusted(why, remedy) => {
            anyhow::anyhow!("the certificate of {url} is not trusted: {why}; {remedy}")
        }
        RequestFault::Unreached(why) | RequestFault::Broken(why) => anyhow::anyhow!("{url} does not answer: {why}"),
    })?;
    let code =
        serde_json::from_slice::<Value>(&body).ok().and_then(|body| Some(body["code"].as_str()? == "tls_required"));
    Ok((status, code.unwrap_or(false)))
}
