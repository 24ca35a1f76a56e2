//! How many tokens an answer took.
//!
//! A committed token counts once, however many models looked at its position; a token that was dropped counts nowhere.

use journey::Role;
use serde_json::{Map, Value, json};

/// Counts of one answer.
#[derive(Debug)]
pub(super) struct Usage {
    /// Tokens of the prompt.
    pub(super) prompt: usize,
    /// Tokens of the answer by the role that made them, the end token included.
    by_role: Vec<usize>,
}

impl Usage {
    pub(super) fn new(roles: usize) -> Self {
        Self { prompt: 0, by_role: vec![0; roles] }
    }

    pub(super) fn count(&mut self, by: Role) {
        self.by_role[by.index()] += 1;
    }

    /// Tokens of the answer.
    pub(super) fn completion(&self) -> usize {
        self.by_role.iter().sum()
    }

    /// OpenAI's object, with our count by model.
    pub(super) fn object(&self, names: &[String]) -> Value {
        let by_model: Map<String, Value> = names
            .iter()
            .zip(&self.by_role)
            .map(|(name, count)| (name.clone(), Value::from(*count)))
            .collect();
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion(),
            "total_tokens": self.prompt + self.completion(),
            "completion_tokens_by_model": by_model,
        })
    }
}
