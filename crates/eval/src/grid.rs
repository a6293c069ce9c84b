//! The settings of each scheme that a sweep tries: the defaults first, then values of the one or two parameters with the largest effect.
//! The grids are small on purpose: with a few hundred true pairs, a finer grid would only adapt to the set.

use doppel_core::collection::{
    AbstractParams, BooleanParams, Channel, FeatureCodeParams, HashFunction, IMatchParams, KeywordParams,
    KeywordVectorParams, LeadKey, Marks, Md5Params, MinhashParams, MultiMd5Params, ScamParams, SegmentsParams,
    ShingleParams, SimhashParams, Split, SuperShingleParams, TermKeys, VsmParams, Weighting,
};

/// Returns the settings that a sweep tries for the scheme of `default`. `default` is the first.
pub fn of(default: &Channel) -> Vec<Channel> {
    let mut tried = vec![default.clone()];
    tried.extend(variants(default).into_iter().filter(|variant| variant != default));
    tried
}

fn variants(default: &Channel) -> Vec<Channel> {
    match default {
        Channel::Simhash(_) => simhash(),
        Channel::Shingle(_) => shingle(),
        Channel::Md5(_) => vec![Channel::Md5(Md5Params { strip: true })],
        Channel::MultiMd5(_) => multi_md5(),
        Channel::SuperShingle(_) => super_shingle(),
        Channel::Minhash(_) => minhash(),
        Channel::IMatch(_) => i_match(),
        Channel::Segments(_) => segments(),
        Channel::Tianwang1(_) => [64, 128, 256].map(|bytes| Channel::Tianwang1(AbstractParams { bytes })).into(),
        Channel::Tianwang2(_) => keywords().map(|n| Channel::Tianwang2(KeywordParams { n })).into(),
        Channel::Tianwang3(_) => vectors(Channel::Tianwang3),
        Channel::Tianwang4(_) => vectors(Channel::Tianwang4),
        Channel::Tianwang5(_) => keywords().map(|n| Channel::Tianwang5(KeywordParams { n })).into(),
        Channel::FeatureCode(_) => feature_code(),
        Channel::Vsm(_) => vsm(),
        Channel::Boolean(_) => boolean(),
        Channel::Scam(_) => scam(),
    }
}

/// Returns a channel for every combination of two lists of values.
fn both<A: Copy, B: Copy>(a: &[A], b: &[B], make: impl Fn(A, B) -> Channel) -> Vec<Channel> {
    a.iter().flat_map(|&a| b.iter().map(move |&b| (a, b))).map(|(a, b)| make(a, b)).collect()
}

fn simhash() -> Vec<Channel> {
    let weightings = [Weighting::Tf, Weighting::TfLen, Weighting::TfIdf];
    both(&weightings, &[3, 7, 11, 13, 15], |weighting, radius| {
        Channel::Simhash(SimhashParams { weighting, radius, hash: HashFunction::City64 })
    })
}

fn shingle() -> Vec<Channel> {
    both(&[6, 8, 10], &[0.05, 0.1, 0.15, 0.2, 0.3], |units, t| {
        Channel::Shingle(ShingleParams { units, t, ..ShingleParams::default() })
    })
}

fn multi_md5() -> Vec<Channel> {
    let by_key = [LeadKey::All, LeadKey::Any].map(|key| {
        both(&[3, 5, 8], &[0.4, 0.5, 0.6, 0.7], |t, share| {
            Channel::MultiMd5(MultiMd5Params { key, t, share, ..MultiMd5Params::default() })
        })
    });
    by_key.concat()
}

fn super_shingle() -> Vec<Channel> {
    both(&[6, 14, 21, 28, 42], &[1, 2, 3], |groups, agree| {
        Channel::SuperShingle(SuperShingleParams { groups, agree, ..SuperShingleParams::default() })
    })
}

fn minhash() -> Vec<Channel> {
    both(&[(42, 3), (64, 2), (25, 5)], &[0.2, 0.25, 0.3, 0.4], |(bands, rows), t| {
        Channel::Minhash(MinhashParams { bands, rows, t, ..MinhashParams::default() })
    })
}

fn i_match() -> Vec<Channel> {
    let bounds = [(0.5, 0.8), (0.4, 0.8), (0.5, 0.9), (0.6, 0.9)];
    both(&bounds, &[(5, 0), (5, 5), (5, 20), (3, 10)], |(low, high), (min, lexicons)| {
        Channel::IMatch(IMatchParams { low, high, min, lexicons })
    })
}

fn segments() -> Vec<Channel> {
    let by_split = [Split::Clause, Split::Sentence].map(|split| {
        both(&[6, 8, 10], &[0.2, 0.3, 0.4, 0.5], |min_units, share| {
            Channel::Segments(SegmentsParams { split, min_units, share, ..SegmentsParams::default() })
        })
    });
    by_split.concat()
}

fn keywords() -> [u32; 4] {
    [3, 4, 7, 10]
}

fn vectors(make: fn(KeywordVectorParams) -> Channel) -> Vec<Channel> {
    both(&[3, 4, 5, 7], &[0.02, 0.05, 0.2], |n, epsilon| make(KeywordVectorParams { n, epsilon }))
}

fn feature_code() -> Vec<Channel> {
    let by_marks = [Marks::FullStop, Marks::Sentence, Marks::Any].map(|marks| {
        both(&[3, 4, 5, 6], &[0.2, 0.3, 0.4], |k, share| Channel::FeatureCode(FeatureCodeParams { k, marks, share }))
    });
    by_marks.concat()
}

fn vsm() -> Vec<Channel> {
    let weightings = [Weighting::Tf, Weighting::TfLen, Weighting::TfIdf];
    let by_keys = [8, 16].map(|keys| {
        both(&weightings, &[0.4, 0.5, 0.6, 0.7, 0.75, 0.8], |weighting, t| {
            Channel::Vsm(VsmParams { weighting, t, keys: TermKeys::Rarest(keys) })
        })
    });
    by_keys.concat()
}

fn boolean() -> Vec<Channel> {
    both(&[0.5, 0.55, 0.6, 0.65, 0.7], &[8, 16], |t, keys| {
        Channel::Boolean(BooleanParams { t, keys: TermKeys::Rarest(keys) })
    })
}

fn scam() -> Vec<Channel> {
    both(&[2.2, 2.5, 3.0, 4.0], &[0.6, 0.7, 0.8, 0.9], |epsilon, t| {
        Channel::Scam(ScamParams { epsilon, t, ..ScamParams::default() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doppel_core::collection::{Preset, Settings};

    #[test]
    fn every_setting_tried_is_valid_and_none_is_tried_twice() {
        for default in Channel::all_defaults() {
            let tried = of(&default);
            assert!(tried.len() > 1, "{}", default.scheme());
            for (at, channel) in tried.iter().enumerate() {
                assert!(channel.scheme() == default.scheme() && !tried[..at].contains(channel), "{channel:?}");
                let settings = Settings { channels: vec![channel.clone()], ..Settings::preset(Preset::Default) };
                assert_eq!(settings.validate(), [], "{channel:?}");
            }
        }
    }
}
