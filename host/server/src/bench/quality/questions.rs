//! What is asked, and when an answer counts: the generated problems of the embedded pair, or a file of questions.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use tinypair::problems::{Mix, Problem, held_out};

/// A question and its mark.
#[derive(Clone, Debug)]
pub enum Question {
    /// A generated problem, marked by its last line.
    Generated(Problem),
    /// A question from a file.
    Written(Written),
}

/// A line of a file of questions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// What the user asks.
    pub question: String,
    /// The number that a right answer ends in: the last one of its text.
    pub answer: f64,
}

/// A file of questions that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionsError {
    /// It cannot be read.
    #[error("cannot read {}", .file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is no question.
    #[error("{}:{line} is not {{\"question\": TEXT, \"answer\": NUMBER}}", .file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// From 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
    /// It has no question.
    #[error("{} has no questions; write one JSON object per line", .file.display())]
    Empty {
        /// The file.
        file: PathBuf,
    },
}

impl Question {
    /// What the user asks.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Generated(problem) => &problem.question,
            Self::Written(written) => &written.question,
        }
    }

    /// Whether an answer counts.
    #[must_use]
    pub fn is_solved_by(&self, answer: &str) -> bool {
        match self {
            Self::Generated(problem) => problem.is_solved_by(answer),
            Self::Written(written) => last_number(answer) == Some(written.answer),
        }
    }
}

/// Held-out problems of the default mix.
#[must_use]
pub fn generated(seed: u64, count: usize) -> Vec<Question> {
    held_out(Mix::DEFAULT, seed, count).into_iter().map(Question::Generated).collect()
}

/// The questions of a file, one JSON object per line.
///
/// # Errors
/// [`QuestionsError`], naming the file and the line.
pub fn read_questions(file: &Path) -> Result<Vec<Question>, QuestionsError> {
    let text = std::fs::read_to_string(file)
        .map_err(|source| QuestionsError::Read { file: file.to_owned(), source })?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let question = |(ix, line)| {
        let read = serde_json::from_str(line).map(Question::Written);
        read.map_err(|source| QuestionsError::Line { file: file.to_owned(), line: ix + 1, source })
    };
    let questions: Vec<Question> = lines.map(question).collect::<Result<_, _>>()?;
    if questions.is_empty() {
        return Err(QuestionsError::Empty { file: file.to_owned() });
    }
    Ok(questions)
}

/// The last number of a text, however it is written: 1,234 and $56.50 and 7.
fn last_number(text: &str) -> Option<f64> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let digits = text.rfind(|c: char| c.is_ascii_digit())?;
    let begin = text[..digits]
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + text[at..].chars().next().map_or(1, char::len_utf8));
    let number: String = text[begin..=digits].chars().filter(|&c| c != ',').collect();
    // A minus sign belongs to it only where there is no number to subtract from.
    let before = text[..begin].strip_suffix('-');
    let negative =
        before.is_some_and(|before| !before.trim_end().ends_with(|c: char| c.is_ascii_digit() || c == ')'));
    let value: f64 = number.trim_start_matches('.').parse().ok()?;
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts_however_it_is_written() {
        for (text, number) in [
            ("So 3 + 4 = 7 apples.", Some(7.0)),
            ("The total is $1,234.50!", Some(1234.5)),
            ("\\boxed{42}", Some(42.0)),
            ("It is -5", Some(-5.0)),
            ("10-5", Some(5.0)),
            ("é12", Some(12.0)),
            ("12.", Some(12.0)),
            ("none", None),
            ("", None),
        ] {
            assert_eq!(last_number(text), number, "{text:?}");
        }
    }

    #[test]
    fn a_file_is_read_line_by_line_and_its_faults_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("q.jsonl");
        std::fs::write(
            &file,
            "{\"question\": \"1 + 1?\", \"answer\": 2}\n\n{\"question\": \"2 + 2?\", \"answer\": 4}\n",
        )
        .unwrap();
        let questions = read_questions(&file).unwrap();
        assert_eq!(questions.len(), 2);
        assert!(questions[1].is_solved_by("2 + 2 = 4.") && !questions[1].is_solved_by("2 + 2 = 5"));
        std::fs::write(&file, "{\"question\": \"1 + 1?\"}\n").unwrap();
        assert!(read_questions(&file).unwrap_err().to_string().contains("q.jsonl:1"));
        std::fs::write(&file, "\n").unwrap();
        assert!(read_questions(&file).unwrap_err().to_string().contains("one JSON object per line"));
        assert!(read_questions(&folder.path().join("no")).unwrap_err().to_string().contains("cannot read"));
    }

    #[test]
    fn the_committed_questions_can_be_read() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bench/questions.jsonl");
        assert!(read_questions(&file).unwrap().len() >= 36);
    }
}
