//! Endings of names.

/// Endings without which a name still means the same thing, the longest first.
const LOOSE: [&str; 62] = [
    "有限责任公司",
    "股份有限公司",
    "街道办事处",
    "社区居委会",
    "村民委员会",
    "居民委员会",
    "集团有限公司",
    "人民医院",
    "有限公司",
    "街道办",
    "居委会",
    "村委会",
    "自治区",
    "自治州",
    "自治县",
    "派出所",
    "幼儿园",
    "公交站",
    "地铁站",
    "火车站",
    "住宅区",
    "小区",
    "街道",
    "社区",
    "公司",
    "集团",
    "医院",
    "小学",
    "中学",
    "学校",
    "大学",
    "学院",
    "公园",
    "广场",
    "大厦",
    "公寓",
    "花园",
    "家园",
    "新村",
    "新区",
    "大道",
    "大街",
    "路口",
    "项目",
    "工地",
    "楼盘",
    "站",
    "省",
    "市",
    "区",
    "县",
    "旗",
    "镇",
    "乡",
    "村",
    "路",
    "街",
    "巷",
    "里",
    "苑",
    "河",
    "城",
];

/// The part of a name before its ending, or all of it if less than two characters are left. A number or a side before the ending is part
/// of what is left.
pub(super) fn core(name: &[char]) -> &[char] {
    let ends = |ending: &str| {
        let length = ending.chars().count();
        name.len() > length + 1 && name[name.len() - length..].iter().copied().eq(ending.chars())
    };
    let ending = LOOSE.iter().find(|ending| ends(ending));
    ending.map_or(name, |ending| &name[..name.len() - ending.chars().count()])
}
