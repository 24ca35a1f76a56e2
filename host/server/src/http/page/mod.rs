//! The page: a playground, metrics, policies and experiments in a browser.
//!
//! Files that are inside the binary and contain nothing of the server's, so they need no key; whatever the page shows, it
//! asks of the other routes with the key that its user typed. It is written by hand, without a build step, and its policy
//! lets it load nothing and talk to nobody but this server.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::header::{HeaderName, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};

use super::error::ApiError;

/// `GET /`
pub(super) async fn index() -> Response {
    answer("text/html; charset=utf-8", include_str!("index.html"))
}

/// `GET /page/{file}`
pub(super) async fn file(name: Result<Path<String>, PathRejection>) -> Result<Response, ApiError> {
    let Path(name) = name.map_err(|_| ApiError::unknown_url("GET", "/page/(not UTF-8)"))?;
    let found = FILES.iter().find(|(known, _)| *known == name);
    let (_, text) = found.ok_or_else(|| ApiError::unknown_url("GET", &format!("/page/{name}")))?;
    let kind =
        if name.ends_with(".css") { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" };
    Ok(answer(kind, text))
}

fn answer(kind: &'static str, text: &'static str) -> Response {
    let headers: [(HeaderName, &'static str); 5] = [
        (CONTENT_TYPE, kind),
        // Another binary has other files under the same names.
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, text).into_response()
}

/// What the page may do. Script in data that found its way into the document would not run.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

macro_rules! files {
    ($($name:literal),*) => { [$(($name, include_str!($name))),*] };
}

/// Everything below `/page/`.
const FILES: [(&str, &str); 12] = files![
    "style.css",
    "main.js",
    "api.js",
    "charts.js",
    "dom.js",
    "experiments.js",
    "knobs.js",
    "metrics.js",
    "models.js",
    "playground.js",
    "policies.js",
    "tokens.js"
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::palette;

    #[test]
    fn models_have_the_colours_that_they_have_in_a_terminal() {
        let (_, style) = FILES[0];
        for ix in 0..6 {
            let ink = palette::role(ix);
            let line = format!("--role-{ix}: light-dark({}, {});", ink.light, ink.dark);
            assert!(style.contains(&line), "{line}");
        }
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_no_text_is_read_as_html() {
        let index = ("index.html", include_str!("index.html"));
        for (name, text) in FILES.into_iter().chain([index]) {
            for banned in
                ["https:", "//cdn", "innerHTML", "outerHTML", "insertAdjacentHTML", "eval(", "style=\""]
            {
                assert!(!text.contains(banned), "{name} has {banned}");
            }
            // The one address is the name of SVG's elements.
            assert!(
                text.replace("http://www.w3.org/2000/svg", "").find("http:").is_none(),
                "{name} has an address"
            );
        }
    }

    #[test]
    fn every_file_is_asked_for_by_another_one() {
        let all: String = FILES.iter().map(|(_, text)| *text).chain([include_str!("index.html")]).collect();
        for (name, _) in FILES {
            assert!(
                all.contains(&format!("\"./{name}\"")) || all.contains(&format!("\"page/{name}\"")),
                "{name}"
            );
        }
    }
}
