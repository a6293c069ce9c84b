//! The settings of each scheme that a sweep tries: the defaults first, then the values of one or two parameters with the largest effect.
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
    let make = |weighting, radius| Channel::Simhash(SimhashParams { weighting, radius, hash: HashFunction::City64 });
    both(&weightings, &[3, 7, 11, 13, 15], make)
}

fn shingle() -> Vec<Channel> {
    let make = |units, t| Channel::Shingle(ShingleParams { units, t, ..ShingleParams::default() });
    both(&[6, 8, 10], &[0.05, 0.1, 0.15, 0.2, 0.3], make)
}

fn multi_md5() -> Vec<Channel> {
    let make = |key| move |t, share| Channel::MultiMd5(MultiMd5Params { key, t, share, ..MultiMd5Params::default() });
    let of = |key| both(&[3, 5, 8], &[0.4, 0.5, 0.6, 0.7], make(key));
    [of(LeadKey::All), of(LeadKey::Any)].concat()
}

fn super_shingle() -> Vec<Channel> {
    let make =
        |groups, agree| Channel::SuperShingle(SuperShingleParams { groups, agree, ..SuperShingleParams::default() });
    both(&[6, 14, 21, 28, 42], &[1, 2, 3], make)
}

fn minhash() -> Vec<Channel> {
    let make = |(bands, rows), t| Channel::Minhash(MinhashParams { bands, rows, t, ..MinhashParams::default() });
    both(&[(42, 3), (64, 2), (25, 5)], &[0.2, 0.25, 0.3, 0.4], make)
}

fn i_match() -> Vec<Channel> {
    let make = |(low, high), (min, lexicons)| Channel::IMatch(IMatchParams { low, high, min, lexicons });
    both(&[(0.5, 0.8), (0.4, 0.8), (0.5, 0.9), (0.6, 0.9)], &[(5, 0), (5, 5), (5, 20), (3, 10)], make)
}

fn segments() -> Vec<Channel> {
    let make = |split| {
        move |min_units, share| {
            Channel::Segments(SegmentsParams { split, min_units, share, ..SegmentsParams::default() })
        }
    };
    let of = |split| both(&[6, 8, 10], &[0.2, 0.3, 0.4, 0.5], make(split));
    [of(Split::Clause), of(Split::Sentence)].concat()
}

fn keywords() -> [u32; 4] {
    [3, 4, 7, 10]
}

fn vectors(make: fn(KeywordVectorParams) -> Channel) -> Vec<Channel> {
    both(&[3, 4, 5, 7], &[0.02, 0.05, 0.2], |n, epsilon| make(KeywordVectorParams { n, epsilon }))
}

fn feature_code() -> Vec<Channel> {
    let make = |marks| move |k, share| Channel::FeatureCode(FeatureCodeParams { k, marks, share });
    let of = |marks| both(&[3, 4, 5, 6], &[0.2, 0.3, 0.4], make(marks));
    [of(Marks::FullStop), of(Marks::Sentence), of(Marks::Any)].concat()
}

fn vsm() -> Vec<Channel> {
    let make = |keys| move |weighting, t| Channel::Vsm(VsmParams { weighting, t, keys: TermKeys::Rarest(keys) });
    let weightings = [Weighting::Tf, Weighting::TfLen, Weighting::TfIdf];
    [8, 16].map(|keys| both(&weightings, &[0.4, 0.5, 0.6, 0.7, 0.75, 0.8], make(keys))).concat()
}

fn boolean() -> Vec<Channel> {
    let make = |t, keys| Channel::Boolean(BooleanParams { t, keys: TermKeys::Rarest(keys) });
    both(&[0.5, 0.55, 0.6, 0.65, 0.7], &[8, 16], make)
}

fn scam() -> Vec<Channel> {
    let make = |epsilon, t| Channel::Scam(ScamParams { epsilon, t, ..ScamParams::default() });
    both(&[2.2, 2.5, 3.0, 4.0], &[0.6, 0.7, 0.8, 0.9], make)
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
