//! Reads the vectors of an answer.

use serde::Deserialize;

use doppel_search::embedder::{EmbedError, MAX_DIMENSION};

/// The parts of an answer that are used.
#[derive(Deserialize)]
struct EmbeddingAnswer {
    data: Vec<EmbeddingItem>,
}

#[derive(Deserialize)]
struct EmbeddingItem {
    index: usize,
    embedding: Vec<f32>,
}

/// Returns the vectors of an answer in the order of the texts.
///
/// # Errors
/// [`EmbedError::Failed`] unless the answer has exactly one usable vector for each of `count` texts, all of one length.
pub(super) fn vectors(body: &[u8], count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let answer: EmbeddingAnswer =
        serde_json::from_slice(body).map_err(|_| wrong("is no list of embeddings, as OpenAI describes it"))?;
    let mut vectors = vec![Vec::new(); count];
    let given = answer.data.len();
    for EmbeddingItem { index, embedding } in answer.data {
        let place = vectors.get_mut(index).filter(|place| place.is_empty());
        *place.ok_or_else(|| wrong("has an index that is no text's, or one twice"))? = embedding;
    }
    if given != count {
        return Err(wrong("has not one vector for each text"));
    }
    let dimension = vectors.first().map_or(0, Vec::len);
    if dimension == 0 || dimension > MAX_DIMENSION {
        return Err(wrong(&format!("has a vector that is empty or has more than {MAX_DIMENSION} numbers")));
    }
    if vectors.iter().any(|vector| vector.len() != dimension) {
        return Err(wrong("has vectors of different lengths"));
    }
    if !vectors.iter().all(|vector| is_usable(vector)) {
        return Err(wrong("has a vector of zeros, or with a number that is not finite"));
    }
    Ok(vectors)
}

fn is_usable(vector: &[f32]) -> bool {
    vector.iter().all(|number| number.is_finite()) && vector.iter().any(|number| *number != 0.0)
}

fn wrong(why: &str) -> EmbedError {
    EmbedError::Failed(format!("gave an answer that {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_put_in_the_order_of_the_texts() {
        let body =
            br#"{"object":"list","data":[{"index":1,"embedding":[0,2]},{"index":0,"embedding":[1,0.5]}],"model":"x"}"#;
        assert_eq!(vectors(body, 2).unwrap(), [vec![1.0, 0.5], vec![0.0, 2.0]]);
    }

    #[test]
    fn an_answer_that_is_not_one_vector_for_each_text_is_a_failure() {
        for wrong in [
            "<html>",
            r#"{"error":{"message":"x"}}"#,
            r#"{"data":[]}"#,
            r#"{"data":[{"index":0,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[0]}]}"#,
            r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e99]}]}"#,
            r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#,
        ] {
            assert!(matches!(vectors(wrong.as_bytes(), 2), Err(EmbedError::Failed(_))), "{wrong}");
        }
    }
}
