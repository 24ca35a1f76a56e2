//! What is refused before a head runs, and what a head says about itself. Also the files that other tests make.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::{Head, HeadError, ModelFiles, ModelSpec, WeightType};

/// A tensor to write: name, shape, numbers.
pub(crate) type Tensor<'a> = (&'a str, &'a [usize], &'a [f32]);

/// A model of a hidden width and vocabulary, of which a head sees nothing else.
pub(crate) fn model(hidden: usize, vocabulary: usize) -> ModelSpec {
    ModelSpec {
        name: "tiny".to_owned(),
        architecture: "LlamaForCausalLM".to_owned(),
        vocabulary,
        context: 16,
        hidden,
        intermediate: hidden,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: hidden,
        parameters: 0,
        weight_bytes: 0,
        eos: Vec::new(),
        dtype: WeightType::F32,
    }
}

/// Writes a graph and its weights; returns the graph's path.
pub(crate) fn write(folder: &Path, graph: &str, tensors: &[Tensor<'_>]) -> PathBuf {
    let mut header = serde_json::Map::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, numbers) in tensors {
        let start = data.len();
        data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        let entry =
            serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
        header.insert((*name).to_owned(), entry);
    }
    let header = serde_json::Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data].concat();
    std::fs::write(folder.join("router.safetensors"), bytes).unwrap();
    let path = folder.join("router.toml");
    std::fs::write(&path, graph).unwrap();
    path
}

/// Loads a graph for a model of 4 hidden numbers and 10 tokens.
fn load(graph: &str, tensors: &[Tensor<'_>]) -> Result<Head, HeadError> {
    let folder = TempDir::new().unwrap();
    Head::load(&write(folder.path(), graph, tensors), &model(4, 10))
}

/// What is wrong, without the folder that the files are in.
fn refusal(graph: &str, tensors: &[Tensor<'_>]) -> String {
    let Err(error) = load(graph, tensors) else { panic!("a head was loaded") };
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text += &format!(": {cause}");
        source = cause.source();
    }
    let words = text.split(' ').map(|word| word.rsplit('/').next().unwrap());
    words.collect::<Vec<_>>().join(" ")
}

fn with_nodes(nodes: &str) -> String {
    format!("weights = 'router.safetensors'\nscores = ['score']\n{nodes}")
}

/// One row on the hidden state.
fn one_row() -> String {
    with_nodes("[[nodes]]\nname = 'score'\nop = 'linear'\nfrom = 'hidden'\nweight = 'w'\nbias = 'b'")
}

const ROW: Tensor<'static> = ("w", &[1, 4], &[1.0, 2.0, 3.0, 4.0]);
const BIAS: Tensor<'static> = ("b", &[1], &[0.5]);

#[test]
fn a_head_tells_its_size_and_cost() {
    let head = load(&one_row(), &[ROW, BIAS]).unwrap();
    assert_eq!((head.name(), head.scores()), ("router", &["score".to_owned()][..]));
    assert_eq!((head.parameters(), head.flops(), head.logits()), (5, 8, 0));
}

#[test]
fn one_row_may_be_stored_as_a_vector() {
    assert!(load(&one_row(), &[("w", &[4], &[1.0, 2.0, 3.0, 4.0]), BIAS]).is_ok());
}

#[test]
fn tensors_that_do_not_fit_are_named_with_both_shapes() {
    assert_eq!(
        refusal(&one_row(), &[("w", &[2, 3], &[0.0; 6]), BIAS]),
        "router.toml: node score needs tensor w of shape [any, 4], as hidden is 4 wide; in router.safetensors it has [2, 3]"
    );
    assert_eq!(
        refusal(&one_row(), &[ROW, ("b", &[2], &[0.0; 2])]),
        "router.toml: node score needs tensor b of shape [1]; in router.safetensors it has [2]"
    );
    assert_eq!(
        refusal(&one_row(), &[ROW]),
        "router.toml: node score names tensor b, which is not in router.safetensors"
    );
}

#[test]
fn weights_that_are_not_finite_are_refused() {
    let text = "holds a weight that is not a finite number";
    let infinite = refusal(&one_row(), &[("w", &[1, 4], &[1.0, f32::INFINITY, 0.0, 0.0]), BIAS]);
    assert!(
        infinite.starts_with("router.toml: reading the weights in router.safetensors: tensor w"),
        "{infinite}"
    );
    assert!(infinite.contains(text), "{infinite}");
    let nan = refusal(&one_row(), &[ROW, ("b", &[1], &[f32::NAN])]);
    assert!(nan.contains(text) && nan.contains("tensor b"), "{nan}");
}

#[test]
fn another_models_head_is_refused() {
    let graph = format!("hidden = 8\n{}", one_row());
    assert_eq!(refusal(&graph, &[ROW, BIAS]), "router.toml is for a model of hidden width 8; tiny has 4");
    let head = load(&one_row(), &[ROW, BIAS]).unwrap();
    assert!(head.check(&model(4, 10)).is_ok());
    assert!(head.check(&model(4, 11)).is_err());
}

#[test]
fn graphs_that_make_no_sense_are_refused_by_node() {
    let node = |name: &str, rest: &str| format!("[[nodes]]\nname = '{name}'\n{rest}\n");
    let score = node("score", "op = 'pick'\nfrom = 'a'\nindex = 0");
    let relu = |from: &str| node("a", &format!("op = 'relu'\nfrom = '{from}'"));
    let cases = [
        (relu("score") + &score, "node a reads score, which does not come before it"),
        (relu("a") + &score, "node a reads a, which does not come before it"),
        (relu("hiden") + &score, "node a reads hiden, which is neither a node nor one of the inputs hidden,"),
        (relu("topk-logits(0)") + &score, "node a reads topk-logits(0), which is neither"),
        (relu("topk-logits(11)") + &score, "node a reads topk-logits(11), but tiny has 10 logits"),
        (relu("hidden") + &relu("hidden") + &score, "node a is there twice"),
        (node("entropy", "op = 'relu'\nfrom = 'hidden'"), "node entropy has the name of an input"),
        (node("a", "op = 'conv'\nfrom = 'hidden'"), "node a is not an operation: unknown variant `conv`"),
        (
            node("a", "op = 'relu'\nfrom = 'hidden'\nbias = 'b'"),
            "node a is not an operation: unknown field `bias`",
        ),
        (node("a", "op = 'relu'"), "node a is not an operation: missing field `from`"),
        (node("a", "op = 'add'\nfrom = []"), "node a reads nothing"),
        (
            node("a", "op = 'add'\nfrom = ['hidden', 'entropy']"),
            "node a adds hidden, 4 wide, and entropy, 1 wide",
        ),
        (
            node("score", "op = 'pick'\nfrom = 'hidden'\nindex = 4"),
            "node score picks number 4 of 4, counted from 0",
        ),
        (
            node("score", "op = 'relu'\nfrom = 'hidden'"),
            "scores names score, which is 4 numbers; pick one of them",
        ),
        (node("a", "op = 'relu'\nfrom = 'hidden'"), "scores names score, which is no node"),
        (
            relu("hidden") + &node("score", "op = 'relu'\nfrom = 'entropy'"),
            "node a is read by no node and is no",
        ),
        ("[[nodes]]\nop = 'relu'\n".to_owned(), "node number 1 has no name"),
    ];
    for (nodes, expected) in cases {
        let found = refusal(&with_nodes(&nodes), &[]);
        assert!(found.starts_with(&format!("router.toml: {expected}")), "{found}\n  instead of\n{expected}");
    }
}

#[test]
fn keys_of_the_file_are_checked() {
    let unknown = refusal(&format!("threshold = 0.5\n{}", one_row()), &[ROW, BIAS]);
    assert!(unknown.contains("unknown field `threshold`"), "{unknown}");
    let away = one_row().replace("'router.safetensors'", "'../router.safetensors'");
    assert!(matches!(load(&away, &[ROW, BIAS]), Err(HeadError::Key { key: "weights", .. })));
    let missing = one_row().replace("'router.safetensors'", "'other.safetensors'");
    assert!(matches!(load(&missing, &[ROW, BIAS]), Err(HeadError::Read { .. })));
    let none = one_row().replace("['score']", "[]");
    assert_eq!(refusal(&none, &[ROW, BIAS]), "router.toml: scores is empty; name the nodes that are scores");
    assert!(matches!(Head::load(Path::new("no/such.toml"), &model(4, 10)), Err(HeadError::Read { .. })));
}

#[test]
fn a_head_in_the_binary_loads_as_one_on_disk_does() {
    const GRAPH: &[u8] = b"weights = 'none.safetensors'\nscores = ['unsure']\n\
        [[nodes]]\nname = 'unsure'\nop = 'relu'\nfrom = 'entropy'";
    // A file without tensors: the length of its header, and the header.
    const NONE: &[u8] = b"\x02\0\0\0\0\0\0\0{}";
    let files = &[("unsure.toml", GRAPH), ("none.safetensors", NONE)];
    let files = ModelFiles::Embedded { name: "tiny", files };
    let head = Head::load_from(&files, "unsure.toml", &model(4, 10)).unwrap();
    assert_eq!((head.name(), head.parameters()), ("unsure", 0));
    let Err(error) = Head::load_from(&files, "other.toml", &model(4, 10)) else {
        panic!("a head was loaded")
    };
    assert!(error.to_string().starts_with("reading other.toml of the embedded model tiny; "), "{error}");
}

#[test]
fn widths_that_grow_without_bound_are_refused() {
    let mut nodes = String::new();
    for index in 0..80 {
        let from = if index == 0 { "hidden".to_owned() } else { format!("n{}", index - 1) };
        nodes += &format!("[[nodes]]\nname = 'n{index}'\nop = 'concat'\nfrom = ['{from}', '{from}']\n");
    }
    let refused = refusal(&with_nodes(&nodes), &[]);
    assert!(refused.contains("wide; the limit is"), "{refused}");
}
