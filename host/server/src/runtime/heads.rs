//! Heads of models: trained networks that score tokens for policies, from files or from the binary.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::{Engine, Head, ModelFiles, ModelSpec};

use super::load::StartError;
use crate::config::{HeadSource, Model};

/// Gives an engine the heads of its model; by name, which of the engine's scores are whose.
pub(super) fn attach(
    name: &str,
    model: &Model,
    engine: &mut dyn Engine,
) -> Result<BTreeMap<String, Range<usize>>, StartError> {
    let mut heads = Vec::with_capacity(model.heads.len());
    let mut ranges = BTreeMap::new();
    let mut scores = 0;
    for (head_name, source) in &model.heads {
        let head = load((name, head_name), source, engine.spec())?;
        let own = scores..scores + head.scores().len();
        scores = own.end;
        ranges.insert(head_name.clone(), own);
        heads.push(head);
    }
    if !heads.is_empty() {
        let refused = |source| StartError::Model { model: name.to_owned(), source: Box::new(source) };
        engine.attach(heads).map_err(refused)?;
    }
    Ok(ranges)
}

fn load((model, head): (&str, &str), source: &HeadSource, spec: &ModelSpec) -> Result<Head, StartError> {
    let loaded = match source {
        HeadSource::Path(path) => Head::load(path, spec),
        HeadSource::Embedded(embedded) => {
            let Some(found) = tinypair::heads::by_name(embedded) else {
                let known: Vec<&str> = tinypair::heads::ALL.iter().map(|head| head.name).collect();
                let (model, head, known) = (model.to_owned(), embedded.clone(), known.join(", "));
                return Err(StartError::NoSuchHead { model, head, known });
            };
            let files = ModelFiles::Embedded { name: found.name, files: found.files };
            Head::load_from(&files, found.graph, spec)
        }
    };
    loaded.map_err(|source| {
        let (model, head) = (model.to_owned(), head.to_owned());
        StartError::Head { model, head, source: Box::new(source) }
    })
}
