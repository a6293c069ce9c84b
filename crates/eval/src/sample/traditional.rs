//! Simplified characters and their traditional forms, for copies of kind `traditional`.
//!
//! The table contains only pairs that are one to one in ordinary text, so that the conversion back always gives the original character. The
//! table is not complete: rarer characters do not change, as in texts of people who mix both forms.

const SIMPLIFIED: &str = "业们严东丽义乡买乱争产亲仅从仓价众优会伟传伤体债兰关兴养写军农冯决况冻净凤创则刚劝办务动励劳势区医华\
     协单卖卢卫厂厅历压县双变号叶吗听启吴员响园围国图圆块坏坚垫墙处备头奖妇孙学宁实审宽对导将尘尝层届属岁\
     岛岭币师带帮广庆应库废开异张弯录彻忆态恶惊愿户扩扫扬扰护报担拥择挡挤损换据断无时显机杂权条来杨构标栋\
     树样桥检楼残毕气汉沟没泪洁测济浅涂涛润涨满滥灯灾点烂烦烧热爱牵犹独环现电画疗盖监盘码确碍种积称稳穷窃\
     竞筑签简类粮紧纠红级约纳纷纸线练组细终经结给络绝统继续维综绿缓编缘缴网罗罚职联肃脏艰艺节苏药莹获虽补\
     装见观规视览觉触计订认讨让训议记讲许论设访证评识诉词试诚话该详误说请诸读课谁调谢谭负责败账货质购贵费\
     贴资赔赖赶赵跃车转轮软轻载较辆辉输边达过运还这进远违连迟适选递邓邮邻郑酱释针钉钢钱铁铃银铺销锁错键镇\
     长门闭问间闻阅队阳阶际陈险随隐难静韩页顶项顺须预领频题额风飞饭馆马驶驾验骗鱼鸟鸡鸣鸭鹤龙齐齿龄龟总恳\
     执拟拦摄暂术极枪梦归讯询诊谈谋贫贷贡财贯趋辅辞辩迁遗酿铝锅阵阴陆雾顾飘饮骑";

const TRADITIONAL: &str = "業們嚴東麗義鄉買亂爭產親僅從倉價眾優會偉傳傷體債蘭關興養寫軍農馮決況凍淨鳳創則剛勸辦務動勵勞勢區醫華\
     協單賣盧衛廠廳歷壓縣雙變號葉嗎聽啟吳員響園圍國圖圓塊壞堅墊牆處備頭獎婦孫學寧實審寬對導將塵嘗層屆屬歲\
     島嶺幣師帶幫廣慶應庫廢開異張彎錄徹憶態惡驚願戶擴掃揚擾護報擔擁擇擋擠損換據斷無時顯機雜權條來楊構標棟\
     樹樣橋檢樓殘畢氣漢溝沒淚潔測濟淺塗濤潤漲滿濫燈災點爛煩燒熱愛牽猶獨環現電畫療蓋監盤碼確礙種積稱穩窮竊\
     競築簽簡類糧緊糾紅級約納紛紙線練組細終經結給絡絕統繼續維綜綠緩編緣繳網羅罰職聯肅髒艱藝節蘇藥瑩獲雖補\
     裝見觀規視覽覺觸計訂認討讓訓議記講許論設訪證評識訴詞試誠話該詳誤說請諸讀課誰調謝譚負責敗賬貨質購貴費\
     貼資賠賴趕趙躍車轉輪軟輕載較輛輝輸邊達過運還這進遠違連遲適選遞鄧郵鄰鄭醬釋針釘鋼錢鐵鈴銀鋪銷鎖錯鍵鎮\
     長門閉問間聞閱隊陽階際陳險隨隱難靜韓頁頂項順須預領頻題額風飛飯館馬駛駕驗騙魚鳥雞鳴鴨鶴龍齊齒齡龜總懇\
     執擬攔攝暫術極槍夢歸訊詢診談謀貧貸貢財貫趨輔辭辯遷遺釀鋁鍋陣陰陸霧顧飄飲騎";

/// Returns `text` with the characters of the table in their traditional form.
pub(super) fn traditional(text: &str) -> String {
    static TABLE: std::sync::LazyLock<std::collections::BTreeMap<char, char>> =
        std::sync::LazyLock::new(|| SIMPLIFIED.chars().zip(TRADITIONAL.chars()).collect());
    text.chars().map(|c| TABLE.get(&c).copied().unwrap_or(c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_rows_of_the_table_have_the_same_length_and_no_character_twice() {
        assert_eq!(SIMPLIFIED.chars().count(), TRADITIONAL.chars().count());
        let distinct: std::collections::BTreeSet<_> = SIMPLIFIED.chars().collect();
        assert_eq!(distinct.len(), SIMPLIFIED.chars().count());
    }

    #[test]
    fn converting_back_gives_the_simplified_text() {
        assert_eq!(fast2s::convert(&traditional(SIMPLIFIED)), SIMPLIFIED);
    }

    #[test]
    fn a_sentence_is_converted() {
        assert_eq!(traditional("请领导马上处理噪音问题"), "請領導馬上處理噪音問題");
    }
}
