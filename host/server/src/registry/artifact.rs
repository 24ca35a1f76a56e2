//! A component as an artifact of a registry, in the layout of the Wasm world (CNCF TAG Runtime, Wasm OCI artifacts).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use store::Digest;

/// What is put into a registry for a component. The same component gives the same bytes.
#[derive(Debug)]
pub struct Artifact {
    /// Says what the layer is.
    pub config: Vec<u8>,
    /// Names config and component.
    pub manifest: Vec<u8>,
}

/// The component of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// SHA-256 of the component.
    pub digest: Digest,
    /// Its length in bytes.
    pub bytes: u64,
    /// An ed25519 signature of it.
    pub signature: Option<Vec<u8>>,
}

/// Of the manifest what is looked at.
#[derive(Deserialize)]
struct Manifest {
    #[serde(default)]
    layers: Vec<Descriptor>,
    /// There in an index of several manifests.
    manifests: Option<serde::de::IgnoredAny>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

impl Artifact {
    /// Of a component, what it says of itself, and a signature of it in hexadecimal.
    #[must_use]
    pub fn of(component: &[u8], (name, doc): (&str, &str), signature: Option<&str>) -> Self {
        let digest = format!("sha256:{}", Digest::of(component));
        let config = json!({
            "created": CREATED,
            "architecture": "wasm",
            "os": "wasip2",
            "layerDigests": [digest],
            "component": {"exports": [EXPORT], "imports": IMPORTS, "target": TARGET},
        });
        let config = config.to_string().into_bytes();
        let signed = signature.map(|signature| (SIGNATURE.to_owned(), signature.to_owned()));
        let descriptor = |media_type: &str, bytes: &[u8], annotations| Descriptor {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", Digest::of(bytes)),
            size: bytes.len() as u64,
            annotations,
        };
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": descriptor(CONFIG, &config, BTreeMap::new()),
            "layers": [descriptor(LAYER, component, signed.into_iter().collect())],
            "annotations": {"org.opencontainers.image.title": name, "org.opencontainers.image.description": doc},
        });
        Self { config, manifest: manifest.to_string().into_bytes() }
    }
}

impl Layer {
    /// The component that a manifest names.
    ///
    /// # Errors
    /// Why it names none.
    pub fn of(manifest: &[u8]) -> Result<Self, String> {
        let manifest: Manifest = serde_json::from_slice(manifest)
            .map_err(|error| format!("its manifest cannot be read: {error}"))?;
        if manifest.manifests.is_some() {
            return Err("it is an index of several; name the manifest of one of them".to_owned());
        }
        let [layer] = manifest.layers.as_slice() else {
            return Err(format!("it has {} layers, not one", manifest.layers.len()));
        };
        if layer.media_type != LAYER {
            return Err(format!("its layer is {:?}, not {LAYER:?}", layer.media_type));
        }
        let digest = layer.digest.strip_prefix("sha256:").and_then(|digits| digits.parse().ok());
        let digest = digest.ok_or_else(|| format!("its layer's digest {:?} is no SHA-256", layer.digest))?;
        let signature = layer.annotations.get(SIGNATURE).map(|text| {
            let text = text.as_bytes();
            let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
            let byte = |pair: &[u8]| Some(digit(pair.first()?)? << 4 | digit(pair.get(1)?)?);
            let bytes: Option<Vec<u8>> = text.chunks(2).map(byte).collect();
            bytes.ok_or_else(|| format!("its annotation {SIGNATURE:?} is not hexadecimal"))
        });
        Ok(Self { digest, bytes: layer.size, signature: signature.transpose()? })
    }
}

/// Media types.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";
const LAYER: &str = "application/wasm";
/// An annotation of the layer.
const SIGNATURE: &str = "tokenrouter.ed25519-signature";
/// The layout asks for a time; another one each time would give one component several digests.
const CREATED: &str = "1970-01-01T00:00:00Z";
/// The world that every policy is of: see `wit`.
const TARGET: &str = "tokenrouter:policy/router@0.1.0";
const EXPORT: &str = "tokenrouter:policy/policy@0.1.0";
const IMPORTS: [&str; 2] = ["tokenrouter:policy/host@0.1.0", "tokenrouter:policy/view@0.1.0"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_the_same_each_time() {
        let signature = "0f".repeat(64);
        let of = || Artifact::of(b"component", ("doubt", "what it does"), Some(&signature));
        assert_eq!((of().manifest, of().config), (of().manifest, of().config));
        let layer = Layer::of(&of().manifest).expect("a component");
        assert_eq!((layer.digest, layer.bytes), (Digest::of(b"component"), 9));
        assert_eq!(layer.signature, Some(vec![0x0f; 64]));
        let config: serde_json::Value = serde_json::from_slice(&of().config).expect("JSON");
        assert_eq!(config["layerDigests"], json!([format!("sha256:{}", Digest::of(b"component"))]));
    }

    #[test]
    fn what_is_no_single_component_is_refused() {
        let layer = |kind: &str, digest: &str| json!({"mediaType": kind, "digest": digest, "size": 1});
        let good = format!("sha256:{}", "ab".repeat(32));
        let mut odd = layer(LAYER, &good);
        odd["annotations"] = json!({ SIGNATURE: "0f0" });
        for (manifest, problem) in [
            (json!([]), "cannot be read"),
            (json!({"manifests": []}), "an index"),
            (json!({"layers": []}), "0 layers"),
            (json!({"layers": [layer(LAYER, &good), layer(LAYER, &good)]}), "2 layers"),
            (
                json!({"layers": [layer("application/vnd.oci.image.layer.v1.tar", &good)]}),
                "not \"application/wasm\"",
            ),
            (json!({"layers": [layer(LAYER, "sha512:ab")]}), "no SHA-256"),
            (json!({"layers": [odd]}), "not hexadecimal"),
        ] {
            let told = Layer::of(manifest.to_string().as_bytes()).expect_err("must be refused");
            assert!(told.contains(problem), "{told}");
        }
    }
}
