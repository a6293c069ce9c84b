use super::*;

fn facts(text: &str) -> Vec<Fact> {
    FactReader::without_places().read(text, &[])
}

/// Returns the kind and the canonical form of each fact.
fn shown(text: &str) -> String {
    let facts = facts(text);
    facts.iter().map(|fact| format!("{:?} {}", fact.kind, fact.canonical)).collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(table: &[(&str, &str)]) {
    check_shown(table, shown);
}

/// Fails and lists all texts for which `show` returns something else than expected.
#[track_caller]
pub(super) fn check_shown(table: &[(&str, &str)], show: impl Fn(&str) -> String) {
    let wrong = table.iter().filter_map(|(text, expected)| {
        let shown = show(text);
        (shown != *expected).then(|| format!("{text}: {shown} instead of {expected}"))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Fails and lists all texts of which more or less than expected is compared.
#[track_caller]
fn check_compared(table: impl IntoIterator<Item = (String, String)>) {
    let wrong = table.into_iter().filter_map(|(text, expected)| {
        let compared = compared(&text);
        (compared != expected).then(|| format!("{text}: {compared} instead of {expected}; {}", shown(&text)))
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Returns the letters and digits of `text` outside its contact and noise spans.
fn compared(text: &str) -> String {
    let spans = contact_and_noise_spans(&facts(text));
    let chars = text.chars().zip(0_u32..);
    let kept = chars.filter(|(c, at)| c.is_alphanumeric() && !spans.iter().any(|span| span.contains(at)));
    kept.map(|(c, _)| c).collect()
}

/// Invented letters, for changes that must not matter.
const LETTERS: [&str; 6] = [
    "河口新区三号路与兴业街交叉口的污水井盖破损已经半个多月,夜间骑车经过时有老人摔倒受伤,社区和市政都说不归自己管,请尽快更换井盖并设置警示标志。",
    "翠湖花园5号楼2单元1203室装修噪音扰民,2021年3月5日报过警,谢谢民警当时到场,但是第二天又开始了",
    "建议86路公交车在青石桥北加一站",
    "我于2020年12月购买云帆置业开发的雁坪府二期,合同约定2023年6月30日前交房,至今没有交付。开发商说请业主理解,没有给出时间",
    "柳塘镇红枫村3组的水渠堵了,村主任说等镇里回复",
    "湘a12b45的渣土车在龙津路23号门口乱倒垃圾!",
];

/// Texts that people, platforms and offices add at the end of a letter.
const ENDINGS: &[&str] = &[
    "联系电话18232860129。",
    "联系电话:182-3286-0129",
    " 手机 182 3286 0129",
    "电话:0571-88886666转801",
    "我的电话是182****0129。",
    "联系方式:182xxxx0129(微信同号)",
    "电话:***********",
    "身份证号330106195803121234。",
    "身份证号码:33010619580312123x",
    "身份证330106********1234",
    "邮箱:li.si@mail.example.cn",
    "银行卡号:6222 0212 3456 7890 123",
    "合同编号:yp-2020-0371",
    " 附件:https://xf.example.gov.cn/upload/202403/img_000123.jpg",
    " https://t.cn/a6xyz",
    " mp.weixin.qq.com/s/abc-def",
    " 附件:现场照片.jpg img_20240301_0912.jpg",
    "\n反映人:赵某某  2023年3月15日",
    "\n反映人:李小明\n2023年3月15日",
    " 联系人:王女士 13800001234",
    "\n2023-03-15",
    " 2023.3.15 10:22",
    "\n二〇二三年三月十五日",
    "\n此致\n敬礼\n李小明\n2023年3月15日",
    "#百姓呼声在行动#来自市民123的帖子",
    "#问政平台#来自网友7的帖子",
    " @河口发布 #民声#",
    "(请承办单位按规定在5个工作日内联系来件人并反馈办理情况)",
    "(请责任单位在45分钟内核查处置,书面反馈结果)",
    "(30分钟办件)",
    "谢谢!",
    "望尽快处理,谢谢。",
    "盼复。",
    "恳请领导重视。",
    " 盼望有关单位及早整改,给居民一个明确的说法",
    " 急急急!!!",
    "\n-- \n张某 高级工程师\n河口新区某某设计院有限公司\n地址:河口新区创业大道88号a座1203室 电话:0571-00000000",
    "\n-----原始邮件-----\n发件人: 河口新区信箱 <box@hekou.example>\n发送时间: 2024年3月1日 9:12\n主题: 答复:来信\n\n您好,信已经转给承办的科室。",
];

/// Texts that people write before a letter.
const GREETINGS: &[&str] = &[
    "尊敬的领导:您好!",
    "尊敬的领导,你好,",
    "尊敬的河口市委王书记:\n  您好!",
    "您好!",
    "您好,",
    "市长您好,",
    "市长你好 ",
    "王书记:",
    "领导好:",
    "各位领导,大家好!",
    "#问政平台# 尊敬的领导:",
];

#[test]
fn what_people_add_before_and_behind_a_letter_is_no_part_of_it() {
    for letter in LETTERS {
        let ended = ENDINGS.iter().map(|ending| format!("{letter}{ending}"));
        let greeted = GREETINGS.iter().map(|greeting| format!("{greeting}{letter}"));
        let changed = ended.chain(greeted).flat_map(|text| [text.replace('\n', " ").replace("  ", " "), text]);
        check_compared(changed.map(|text| (text, compared(letter))));
    }
}

#[test]
fn a_closing_phrase_needs_no_sign_before_it() {
    let body = "翠湖花园5号楼的电梯坏了三天";
    let endings = [
        "盼回复",
        "请领导协调解决",
        "请职能局核查整改",
        "请职能局在45分钟内联系来电人并反馈结果",
        "希望上级能够过问一下",
        "望有关部门处理",
        "再次感谢",
        "谢谢",
    ];
    check_compared(endings.map(|ending| (format!("{body}{ending}"), body.to_owned())));
    check_compared([(format!("市领导好我是业主,{body}"), format!("我是业主{body}"))]);
}

#[test]
fn several_additions_are_removed_together() {
    for letter in LETTERS {
        let pairs = GREETINGS.iter().zip(ENDINGS.iter().step_by(3));
        let changed = pairs.map(|(greeting, ending)| format!("{greeting}{letter} 谢谢!{ending} 盼复!"));
        check_compared(changed.map(|text| (text, compared(letter))));
    }
}

#[test]
fn nothing_of_the_body_is_removed() {
    let bodies = [
        "2021年3月5日下午我在龙津路被撞,谢谢路人帮忙报警,肇事者至今没有找到",
        "请问什么时候通燃气",
        "你好贝贝幼儿园乱收费",
        "事情发生在2021年3月5日",
        "物业说不要感谢他们只要按时交费,我们没有看到任何希望",
        "停电时间为2021年3月5日,共计8小时",
        "收费3000元,押金2000元,共10000元,2018年1月1日起不退",
        "小区于2016-05-01交房,容积率3.5,层高2.8米",
        "请把3#楼和5#楼之间的垃圾清走",
        "12345热线说一周内回复,没有人联系我",
        "联系人说不知道,反映人要求退款",
        "来自外地的车辆停在路边",
        "报告提交后领导没有处理这件事的意思",
        "第二天他们又来了,我不同意他们的处理方案",
        "合同约定的面积是120.5平米,付款20万元",
        "电话打不通,微信支付1000元后不发货",
    ];
    check_compared(bodies.map(|body| (body.to_owned(), body.chars().filter(|c| c.is_alphanumeric()).collect())));
}

#[test]
fn contacts_have_one_canonical_form() {
    check(&[
        ("电话138 0000 1234", "Phone 13800001234"),
        ("138-0000-1234", "Phone 13800001234"),
        ("+86 13800001234", "Phone 13800001234"),
        ("电话+8613800001234", "Phone 13800001234"),
        ("86-138-0000-1234", "Phone 13800001234"),
        ("(+86)138 0000 1234", "Phone 13800001234"),
        ("008613800001234", "Phone 13800001234"),
        ("手机013800001234", "Phone 13800001234"),
        ("138.0000.1234", "Phone 13800001234"),
        ("138—0000—1234", "Phone 13800001234"),
        ("138·0000·1234", "Phone 13800001234"),
        ("电话0731.88886666", "Phone 073188886666"),
        ("电话一三八〇〇〇〇一二三四", "Phone 13800001234"),
        ("幺三八零零零零幺二三四", "Phone 13800001234"),
        ("一三八〇〇〇〇一二三四五", ""),
        ("一三八○○○○一二三四", "Phone 13800001234"),
        ("么三八〇〇〇〇么二三四", "Phone 13800001234"),
        ("一三八-〇〇〇〇-一二三四", "Phone 13800001234"),
        ("电话138零零零零1234", "Phone 13800001234"),
        ("一三八 0000 1234", "Phone 13800001234"),
        ("电话138/0000/1234", "Phone 13800001234"),
        ("138―0000―1234", "Phone 13800001234"),
        ("+86-731-88886666", "Phone 073188886666"),
        ("+86 10 8888 6666", "Phone 01088886666"),
        ("+8673188886666", "Phone 073188886666"),
        ("电话0086(731)88886666", "Phone 073188886666"),
        ("138零零零零1234元", ""),
        ("一三八零零零零", ""),
        ("+86-731人", ""),
        ("+862024万", ""),
        ("一二〇〇〇〇〇一二三四", ""),
        ("138****1234", "Phone 138****1234"),
        ("座机(0731)88886666", "Phone 073188886666"),
        ("客服电话400-800-1234", "Phone 4008001234"),
        ("电话:88886666", "Phone 88886666"),
        ("微信号:abc_123", "Phone abc_123"),
        ("身份证号11010519491231002x", "IdentityNumber 11010519491231002x"),
        ("430102850101123", "IdentityNumber 430102850101123"),
        ("发到zhang.san@example.com", "Email zhang.san@example.com"),
        ("卡号6222021234567890123", "BankAccount 6222021234567890123"),
        ("户号0731220011", "ContractNumber 0731220011"),
        ("联系人:张小三", "PersonName 张小三"),
        ("诉求人姓名:欧阳小三,", "PersonName 欧阳小三"),
        ("来电人王女士", "PersonName "),
        ("反映人:匿名", "PersonName "),
        ("被投诉人:王小强", ""),
        ("被举报人姓名:王小强", ""),
        ("患者姓名:王小强", ""),
        ("我家停水。姓名:王小强", "PersonName 王小强"),
        ("投诉人李小三138****1234", "PersonName 李小三; Phone 138****1234"),
        ("共12800001234元", ""),
        ("86.138万人", ""),
        ("86 1380元", ""),
        ("1350000.0000元", ""),
        ("东经131.12345678度", ""),
        ("+86 0731-88886666", "Phone 073188886666"),
        ("电话0731-88886666.3月5日停水", "Phone 073188886666"),
        ("0731-88886666—0731-88887777", "Phone 073188886666; Phone 073188887777"),
        ("电话0731.88886666.3月5日停水", "Phone 073188886666"),
        ("138.0000.1234.3月5日停水", "Phone 13800001234"),
        ("门票400-600-1000元不等", ""),
        ("房租800 900 1000元", ""),
        ("工程款13800001234元", ""),
        ("坐标028.22821234", ""),
        ("水表读数0731.8888666", ""),
        ("设备序列号138.0000.1234", ""),
        ("灯杆号138-0000-1234", ""),
        ("鹤鸣小区150-1201-1301室", "Room 1301"),
        ("预算一五〇〇〇〇〇〇〇〇〇元", ""),
        ("雁坪路86-13800001234", "Phone 13800001234"),
        ("电话86-13800001234", "Phone 13800001234"),
        ("电话一三八〇〇〇〇一二三四(微信同号),谢谢", "Phone 13800001234; Closing "),
        ("电话138•0000•1234", "Phone 13800001234"),
        ("请尽快修。王小三13800001234", "PersonName 王小三; Phone 13800001234"),
        ("地点:平安路,13800001234", "Phone 13800001234"),
        ("请尽快修。金星村13800001234", "Phone 13800001234"),
        ("请尽快修。平安里,13800001234", "Phone 13800001234"),
        ("路灯13800001234", "Phone 13800001234"),
        ("全国统一4008001234", "Phone 4008001234"),
        ("雁坪路86 13800001234", "Phone 13800001234"),
        ("100000000000", ""),
    ]);
}

#[test]
fn numbers_of_orders_are_references() {
    check(&[
        ("工单号:20180101121976", "OrderNumber 20180101121976"),
        ("工单号20180101121976《关于路灯的问题》", "OrderNumber 20180101121976"),
        ("信访件编号xf-2024-00123没有回复", "OrderNumber xf202400123"),
        ("20240305123456没有处理", "OrderNumber 20240305123456"),
        ("快递单号sf1234567890", "OrderNumber sf1234567890"),
    ]);
    let order = &facts("工单号:20180101121976")[0];
    assert_eq!((order.span.clone(), order.kind.group()), (4..18, FactGroup::Reference));
}

#[test]
fn links_files_and_hashtags_are_noise() {
    check(&[
        ("见https://t.cn/a6x。", "Url https://t.cn/a6x"),
        ("见www.example.com/a?b=1,谢", "Url www.example.com/a?b=1; Closing "),
        ("照片:微信图片_2024.png", "AttachmentName 微信图片_2024.png"),
        ("录音001.mp3", "AttachmentName 001.mp3"),
        ("层高3.5米,版本2.0.cn2", ""),
        ("#河口身边事#路灯不亮", "Hashtag 河口身边事"),
        ("#河口身边事 路灯不亮", "Hashtag 河口身边事"),
    ]);
}

#[test]
fn numbers_of_places_compare_by_value() {
    check(&[
        ("龙津路23号", "HouseNumber 23"),
        ("龙津路二十三号", "HouseNumber 23"),
        ("龙津路23-1号", "HouseNumber 23-1"),
        ("红枫村甲23号", "HouseNumber 甲23"),
        ("青石弄堂里1234弄56号", "HouseNumber 1234弄; Building 56"),
        ("5号楼,五号楼,5栋,5#楼,5幢", "Building 5; Building 5; Building 5; Building 5; Building 5"),
        ("58号楼3单元1203室", "Building 58; Unit 3; Room 1203"),
        ("三栋二单元五零二室", "Building 3; Unit 2; Room 502"),
        ("3单元1203漏水", "Unit 3; Room 1203"),
        ("a座1203房", "Building a; Room 1203"),
        ("a12栋", "Building a12"),
        ("5、6、7号楼", "Building 5; Building 6; Building 7"),
        ("5号、6号楼", "Building 5; Building 6"),
        ("翠湖花园二期", "Phase 2期"),
        ("翠湖花园三区", "Phase 3区"),
        ("红枫村3组,红枫村第三村民小组", "VillageGroup 3; VillageGroup 3"),
        ("湘a12345,湘a·12b45,粤bd12345", "Plate 湘a12345; Plate 湘a12b45; Plate 粤bd12345"),
        ("湘a•12345,湘a・12345,湘a‧12345", "Plate 湘a12345; Plate 湘a12345; Plate 湘a12345"),
    ]);
}

#[test]
fn measures_dates_and_counts_are_no_places() {
    for text in [
        "3月5号,住了5号",
        "三室两厅,3室2厅",
        "一栋楼,两栋别墅,共有3栋",
        "两个单元",
        "学期,长期,三年期间,分12期",
        "一组数据,工作组",
        "各位,座位,3座大桥,7座车",
        "新一轮,川菜",
        "热线12345",
        "3楼,12层",
        "这个小区",
    ] {
        check(&[(text, "")]);
    }
}

#[test]
fn lines_are_told_from_roads() {
    check(&[
        ("86路晚点", "TransitLine 86路"),
        ("建议86路加站", "TransitLine 86路"),
        ("坐专86路去", "TransitLine 专86路"),
        ("夜12路,b1路", "TransitLine 夜12路; TransitLine b1路"),
        ("地铁86号线", "TransitLine 86号线"),
        ("地铁三号线", "TransitLine 3号线"),
        ("1、3号线", "TransitLine 1号线; TransitLine 3号线"),
        ("86、92路", "TransitLine 86路; TransitLine 92路"),
        ("86路和92路", "TransitLine 86路; TransitLine 92路"),
        ("139区间停开", "TransitLine 139路区间"),
        ("86路区间车", "TransitLine 86路区间"),
        ("86公交车", "TransitLine 86路"),
        ("s1线", "TransitLine s1号线"),
        ("快速公交3线", "TransitLine 快3路"),
        ("坐十二路", "TransitLine 12路"),
        ("三号路", "Road 3号路"),
    ]);
    for text in ["科创5路的路灯", "经三路", "一路上", "兵分三路", "凤城十二路", "松岗2路口"] {
        check(&[(text, "")]);
    }
}

#[test]
fn facts_are_in_order_and_none_lies_within_a_contact_or_a_link() {
    let text = "龙津路23号5栋,见https://a.cn/86路/b12,工单号20240305123456,电话13800001234";
    let facts = facts(text);
    assert!(facts.windows(2).all(|two| two[0].span.start <= two[1].span.start));
    let kinds: Vec<_> = facts.iter().map(|fact| fact.kind).collect();
    use FactKind::{Building, HouseNumber, OrderNumber, Phone, TransitLine, Url};
    assert!(kinds.starts_with(&[HouseNumber, Building, Url]) && kinds.ends_with(&[OrderNumber, Phone]), "{kinds:?}");
    assert!(!kinds[..3].contains(&TransitLine));
}

#[test]
fn any_text_is_read() {
    let parts = [
        "1",
        "x",
        "*",
        "@",
        ".",
        ":",
        "//",
        "#",
        "(",
        ")",
        "-",
        "号",
        "楼",
        "单元",
        "室",
        "期",
        "路",
        "线",
        "公交",
        "湘",
        "a",
        "谢谢",
        "尊敬的",
        "领导",
        "电话",
        "身份证",
        "人",
        "姓名",
        "来自",
        "发布于",
        "附件",
        "2024年3月5日",
        " ",
        "\n",
        "。",
        "\u{20000}",
        "十",
        "一",
        "0731",
        "138",
    ];
    let mut state = 7_u64;
    for _ in 0..5000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text += parts[(state >> 33) as usize % parts.len()];
        }
        let length = text.chars().count() as u32;
        for fact in facts(&text) {
            assert!(fact.span.start < fact.span.end && fact.span.end <= length, "{text:?} {fact:?}");
        }
    }
}

#[test]
fn noise_is_found_without_names_as_with_them() {
    let texts = [
        "尊敬的领导:您好!反映鹤鸣小区5号楼停水,联系电话13800001234,谢谢!",
        "投诉柳塘区教育局 附件:https://letters.example.org/a/IMG_000123.jpg #问政平台#",
        "雁坪路23号路灯不亮\n反映人:王某某 2024年3月5日",
    ];
    for text in texts {
        let reader = FactReader::without_places();
        assert_eq!(
            contact_and_noise_spans(&reader.shapes(text)),
            contact_and_noise_spans(&reader.read(text, &[])),
            "{text}"
        );
    }
}

#[test]
fn the_beginning_of_an_order_is_noise_and_words_of_the_matter_are_not() {
    assert_eq!(kept("市民来电反映:雁坪路停水"), ":雁坪路停水");
    assert_eq!(kept("市民微信咨询雁坪路停水"), "雁坪路停水");
    assert_eq!(kept("来电人再次反映:停水"), ":停水");
    assert_eq!(kept("热心市民通过12345热线投诉,雁坪路停水"), ",雁坪路停水");
    for text in ["市民反映强烈的停水问题", "市民广场停水", "居民投诉无门,无人处理", "来电显示是骗子"]
    {
        assert_eq!(kept(text), text);
    }
}

/// Returns a text without the beginning that the intake wrote.
fn kept(text: &str) -> String {
    let facts = FactReader::without_places().read(text, &[]);
    let removed = facts.iter().find(|fact| fact.kind == FactKind::Intake);
    let end = removed.map_or(0, |fact| fact.span.end as usize);
    text.chars().skip(end).collect()
}

#[test]
fn the_home_of_the_writer_is_a_contact_only_below_a_letter_about_another_place() {
    let about_a_crossing = "三号路与兴业街交叉口的井盖破损半个月,请尽快更换";
    for home in ["本人住安居苑16栋1438室", "我家住在安居苑 16栋,1438室", "住址:安居苑16-2-1438", "家住柳塘镇红枫村3组"]
    {
        check_compared([(format!("{about_a_crossing}。{home}。"), compared(about_a_crossing))]);
        check_compared([(format!("{about_a_crossing}。{home}。联系电话18232860129。"), compared(about_a_crossing))]);
    }
    let kept = [
        "楼上每天深夜装修,请派人处理。我住安居苑16栋1438室。",
        "三号路的路灯不亮,我住安居苑16栋1438室",
        "三号路的路灯不亮。我住安居苑16栋1438室,楼上漏水。",
        "我住安居苑16栋1438室。",
        "物业公司乱收费,请查处。家住阳光小区5栋。",
        "三号路的路灯不亮。我家住五楼,漏水一直漏到一楼。",
    ];
    for text in kept {
        let whole: String = text.chars().filter(|c| c.is_alphanumeric()).collect();
        check_compared([(text.to_owned(), whole)]);
    }
}

#[test]
fn contacts_of_one_person_have_codes_and_the_number_of_a_hotline_has_none() {
    let phone = codes("路灯不亮,联系电话13800001234");
    assert_eq!(phone.len(), 1);
    assert_eq!(codes("停水三天,电话:138 0000 1234"), phone);
    assert_ne!(codes("停水三天,电话13900001234"), phone);
    assert!(codes("拨打电话12345没有人接").is_empty());
}

fn codes(text: &str) -> Vec<u64> {
    contact_codes(&FactReader::without_places().shapes(text))
}
