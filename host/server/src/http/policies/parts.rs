//! The parts of an upload, read as they come and never beyond their bounds.

use std::time::Duration;

use axum::extract::multipart::{Field, Multipart, MultipartError};
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use store::policy_history::Manifest;

use crate::http::error::{ApiError, Fault, shortened};

/// What an upload brings.
pub(super) struct Parts {
    /// The component's bytes.
    pub(super) component: Vec<u8>,
    pub(super) manifest: Manifest,
    pub(super) signature: Option<Vec<u8>>,
}

#[derive(Default)]
struct Read {
    component: Option<Vec<u8>>,
    manifest: Option<Vec<u8>>,
    signature: Option<Vec<u8>>,
}

/// Reads all parts.
///
/// # Errors
/// A part that is missing, unknown, there twice, too large or too slow, or that cannot be read.
pub(super) async fn read(request: Request, component_most: usize) -> Result<Parts, ApiError> {
    let multipart = Multipart::from_request(request, &()).await;
    let mut multipart = multipart.map_err(|error| {
        let message =
            format!("{}; send multipart/form-data with the parts component and manifest", error.body_text());
        ApiError::general(Fault::Json, message)
    })?;
    let taking = tokio::time::timeout(PATIENCE, take(&mut multipart, component_most)).await;
    let read = taking.unwrap_or_else(|_| {
        let message = format!("the parts did not arrive within {} seconds", PATIENCE.as_secs());
        Err(ApiError::general(Fault::Slow, message))
    });
    match read {
        Ok(read) => read.whole(),
        Err(refusal) => {
            discard(multipart).await;
            Err(refusal)
        }
    }
}

async fn take(multipart: &mut Multipart, component_most: usize) -> Result<Read, ApiError> {
    let mut read = Read::default();
    while let Some(field) = multipart.next_field().await.map_err(|error| broken(&error, component_most))? {
        let name = field.name().unwrap_or_default().to_owned();
        let (place, most) = match name.as_str() {
            "component" => (&mut read.component, component_most),
            "manifest" => (&mut read.manifest, MANIFEST_BYTES_MAX),
            "signature" => (&mut read.signature, SIGNATURE_BYTES_MAX),
            _ => {
                let message = format!(
                    "there is no part {:?}; the parts are component, manifest and signature",
                    shortened(&name)
                );
                return Err(ApiError::field(Fault::Unknown, shortened(&name), message));
            }
        };
        if place.is_some() {
            return Err(ApiError::field(Fault::Value, name, "the part is there twice"));
        }
        *place = Some(bytes(field, &name, most).await?);
    }
    Ok(read)
}

/// The bytes of a part.
async fn bytes(mut field: Field<'_>, name: &str, most: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| broken(&error, most))? {
        if bytes.len() + chunk.len() > most {
            return Err(too_large(name, most));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

impl Read {
    fn whole(self) -> Result<Parts, ApiError> {
        let missing =
            |part: &str| ApiError::field(Fault::Missing, part, format!("the part {part:?} is missing"));
        let component = self.component.ok_or_else(|| missing("component"))?;
        let manifest = self.manifest.ok_or_else(|| missing("manifest"))?;
        let unreadable = |problem: String| ApiError::field(Fault::Value, "manifest", problem);
        let text = std::str::from_utf8(&manifest).map_err(|error| unreadable(error.to_string()))?;
        let manifest: Manifest = toml::from_str(text).map_err(|error| unreadable(error.to_string()))?;
        if let Some((key, value)) = manifest.settings.iter().find(|(_, value)| !value.is_finite()) {
            return Err(unreadable(format!("settings.{key}: {value} is no finite number")));
        }
        let signature = self.signature.map(|signature| signed(&signature)).transpose()?;
        Ok(Parts { component, manifest, signature })
    }
}

/// A signature: 64 bytes, or as many in hexadecimal.
fn signed(part: &[u8]) -> Result<Vec<u8>, ApiError> {
    if part.len() == SIGNATURE_BYTES {
        return Ok(part.to_vec());
    }
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let bytes = part.trim_ascii().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    let bytes: Option<Vec<u8>> = bytes.collect();
    bytes.filter(|bytes| bytes.len() == SIGNATURE_BYTES).ok_or_else(|| {
        ApiError::field(Fault::Value, "signature", "is neither 64 bytes nor 128 hexadecimal digits")
    })
}

fn broken(error: &MultipartError, most: usize) -> ApiError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large("component", most);
    }
    ApiError::general(Fault::Json, format!("the parts cannot be read: {}", error.body_text()))
}

fn too_large(part: &str, most: usize) -> ApiError {
    let key = if part == "component" { " (uploads.bytes_max)" } else { "" };
    let message = format!("the part {part:?} is larger than the {most} bytes that this server takes{key}");
    ApiError::field(Fault::TooLarge, part, message)
}

/// Reads on for a while after a refusal: see [`crate::http::body`].
async fn discard(mut multipart: Multipart) {
    let all = async { while let Ok(Some(_)) = multipart.next_field().await {} };
    if tokio::time::timeout(DISCARD, all).await.is_err() {
        tracing::debug!("an upload that is refused is cut off");
    }
}

/// How long all parts may take.
const PATIENCE: Duration = Duration::from_secs(120);
const DISCARD: Duration = Duration::from_secs(2);
const MANIFEST_BYTES_MAX: usize = 64 << 10;
const SIGNATURE_BYTES: usize = 64;
const SIGNATURE_BYTES_MAX: usize = 1024;
/// Parts beside the component, and what separates them.
pub(super) const BESIDE_BYTES_MAX: usize = 128 << 10;
