//! Vectors of bytes, and the cosine of two of them.
//!
//! A vector is stored as one signed byte for each number. Its length is lost; only its direction counts. The cosine is computed after the
//! mean of all vectors of the collection is subtracted, because models give all texts of one kind a common direction, which says nothing
//! about a pair.

/// The largest byte of a vector.
const LARGEST: f32 = 127.0;

/// Returns a vector as bytes: its largest number becomes 127 or -127. O(dimension).
pub(crate) fn quantise(vector: &[f32]) -> Vec<i8> {
    let largest = vector.iter().fold(0.0_f32, |largest, number| largest.max(number.abs()));
    if largest == 0.0 {
        return vec![0; vector.len()];
    }
    // The cast saturates, and the values are within -127 and 127.
    vector.iter().map(|number| (number / largest * LARGEST).round() as i8).collect()
}

/// Returns the length of a vector of bytes; 0 only for a vector of zeros.
pub(crate) fn length(vector: &[i8]) -> f32 {
    let squares: i32 = vector.iter().map(|byte| i32::from(*byte) * i32::from(*byte)).sum();
    (squares as f32).sqrt()
}

/// Returns the cosine of two vectors of the same dimension, without subtracting a mean; 0 if one has only zeros.
pub(crate) fn cosine(a: &[i8], b: &[i8]) -> f32 {
    let product: i32 = a.iter().zip(b).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum();
    let lengths = length(a) * length(b);
    if lengths > 0.0 { product as f32 / lengths } else { 0.0 }
}

fn dot(a: &[f32], b: &[i8]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * f32::from(*b)).sum()
}

/// A vector that is compared with others: of length 1, after the mean was subtracted.
pub(crate) struct CentredVector {
    direction: Vec<f32>,
    mean: Vec<f32>,
    /// The squared length of the mean.
    mean_square: f32,
    /// The product of the direction and the mean.
    mean_product: f32,
}

impl CentredVector {
    /// Makes the centred form of a vector. `None` if the vector is zero, or equal to the mean.
    pub(crate) fn new(vector: &[i8], mean: Vec<f32>) -> Option<Self> {
        let own = length(vector);
        if own == 0.0 {
            return None;
        }
        let mut direction: Vec<f32> =
            vector.iter().zip(&mean).map(|(byte, mean)| f32::from(*byte) / own - mean).collect();
        let rest = direction.iter().map(|number| number * number).sum::<f32>().sqrt();
        if rest < f32::EPSILON {
            return None;
        }
        direction.iter_mut().for_each(|number| *number /= rest);
        let mean_square = mean.iter().map(|number| number * number).sum();
        let mean_product = direction.iter().zip(&mean).map(|(a, b)| a * b).sum();
        Some(Self { direction, mean, mean_square, mean_product })
    }

    /// Returns the cosine with another vector of the same dimension, -1 to 1, after the mean was subtracted from both. `None` if the other
    /// vector is zero, or equal to the mean. O(dimension).
    pub(crate) fn cosine(&self, other: &[i8]) -> Option<f32> {
        let own = length(other);
        if own == 0.0 {
            return None;
        }
        let rest = 1.0 - 2.0 * dot(&self.mean, other) / own + self.mean_square;
        if rest < f32::EPSILON {
            return None;
        }
        Some(((dot(&self.direction, other) / own - self.mean_product) / rest.sqrt()).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_of_bytes_has_nearly_the_direction_of_its_numbers() {
        let numbers: Vec<f32> = (0..384_u16).map(|n| (f32::from(n) * 0.7).sin() * 0.05).collect();
        let bytes = quantise(&numbers);
        let product: f32 = numbers.iter().zip(&bytes).map(|(a, b)| a * f32::from(*b)).sum();
        let lengths = numbers.iter().map(|n| n * n).sum::<f32>().sqrt() * length(&bytes);
        assert!(product / lengths > 0.9999, "{}", product / lengths);
        assert_eq!(quantise(&[0.0, -2.0, 1.0]), [0, -127, 64]);
        assert_eq!(quantise(&[0.0, 0.0]), [0, 0]);
    }

    #[test]
    fn the_centred_cosine_is_that_of_the_differences_from_the_mean() {
        let asked = [100, 20, -30_i8];
        let other = [90, -70, 10_i8];
        let mean = vec![0.5, -0.2, 0.1];
        let [own, theirs] = [asked, other].map(|vector| {
            let length = length(&vector);
            let parts: Vec<f32> = vector.iter().zip(&mean).map(|(b, m)| f32::from(*b) / length - m).collect();
            parts
        });
        let product: f32 = own.iter().zip(&theirs).map(|(a, b)| a * b).sum();
        let [a, b] = [own, theirs].map(|parts| parts.iter().map(|n| n * n).sum::<f32>().sqrt());
        let centred = CentredVector::new(&asked, mean.clone()).unwrap();
        assert!((centred.cosine(&other).unwrap() - product / (a * b)).abs() < 1e-5);
        assert!((centred.cosine(&asked).unwrap() - 1.0).abs() < 1e-5);
        assert_eq!(centred.cosine(&[0, 0, 0]), None);
        assert!(CentredVector::new(&[0, 0, 0], mean).is_none());
    }
}
