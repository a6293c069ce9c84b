//! The form in which names are compared.

use super::FactKind;
use super::numerals::{is_numeral, value};

/// Returns the form in which a name is compared: numbers of roads, schools and villages in digits, and the office of a
/// street as the street.
pub(super) fn canonical(kind: FactKind, name: &[char]) -> String {
    let mut canonical = String::with_capacity(name.len() * 3);
    let mut at = 0;
    while at < name.len() {
        let end = at + name[at..].iter().take_while(|&&c| is_numeral(c)).count();
        let behind: String = name[end..].iter().take(2).collect();
        let numbered = [
            "路", "街", "巷", "号", "横", "中", "小", "村", "区", "院", "期", "环", "支", "东", "西", "南", "北", "高",
            "幼",
        ];
        let counted = end > at && numbered.iter().any(|word| behind.starts_with(word)) && at > 0;
        let ordinal = at > 0 && name[at - 1] == '第';
        match value(&name[at..end]) {
            Some(value) if counted || ordinal => {
                if ordinal {
                    canonical.pop();
                }
                canonical += &value.to_string();
                at = end;
            }
            _ => {
                let end = end.max(at + 1);
                canonical.extend(&name[at..end]);
                at = end;
            }
        }
    }
    match kind {
        FactKind::Town => {
            for office in ["街道办事处", "街道办"] {
                if let Some(stem) = canonical.strip_suffix(office) {
                    return format!("{stem}街道");
                }
            }
        }
        FactKind::School => {
            for (long, short) in [("中学", "中"), ("小学", "小")] {
                if let Some(stem) =
                    canonical.strip_suffix(long).filter(|stem| stem.ends_with(|c: char| c.is_ascii_digit()))
                {
                    return format!("{stem}{short}");
                }
            }
        }
        _ => {}
    }
    canonical
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_compare_by_value() {
        for (kind, name, expected) in [
            (FactKind::Road, "学府二路", "学府2路"),
            (FactKind::Road, "学府2路", "学府2路"),
            (FactKind::School, "柳塘第三中学", "柳塘3中"),
            (FactKind::School, "柳塘三中", "柳塘3中"),
            (FactKind::Town, "柳塘街道办事处", "柳塘街道"),
            (FactKind::Estate, "三江花园", "三江花园"),
        ] {
            assert_eq!(canonical(kind, &name.chars().collect::<Vec<_>>()), expected);
        }
    }
}
